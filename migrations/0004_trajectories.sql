CREATE TABLE "trajectory_parts" (
	"task_id" text NOT NULL,
	"fence" bigint NOT NULL,
	"at_bytes" bigint NOT NULL,
	"attempt" integer NOT NULL,
	"size_bytes" integer NOT NULL,
	"digest" text,
	"content" "bytea",
	CONSTRAINT "trajectory_parts_task_id_fence_at_bytes_pk" PRIMARY KEY("task_id","fence","at_bytes")
);
--> statement-breakpoint
-- Ids are compared in byte order, as everywhere (0001).
alter table trajectory_parts alter column task_id type text collate "C";
--> statement-breakpoint
-- A part lies in the blob store, or is so short that it stands here.
alter table trajectory_parts add constraint trajectory_parts_place check ((digest is null) <> (content is null));
