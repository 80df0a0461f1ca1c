CREATE TABLE "observations" (
	"task_id" text NOT NULL,
	"seq" integer NOT NULL,
	"key_id" text NOT NULL,
	"idempotency_key" text,
	"at" timestamp with time zone NOT NULL,
	"content" text NOT NULL,
	"received_fence" bigint,
	CONSTRAINT "observations_task_id_seq_pk" PRIMARY KEY("task_id","seq")
);
--> statement-breakpoint
CREATE UNIQUE INDEX "observations_idempotency" ON "observations" USING btree ("task_id","idempotency_key") WHERE idempotency_key is not null;--> statement-breakpoint
CREATE INDEX "observations_waiting" ON "observations" USING btree ("task_id") WHERE received_fence is null;--> statement-breakpoint
-- Ids are compared in byte order, as everywhere (0001).
alter table observations alter column task_id type text collate "C", alter column key_id type text collate "C";
