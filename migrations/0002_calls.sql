CREATE TABLE "call_rates" (
	"task_id" text NOT NULL,
	"host" text NOT NULL,
	"tokens" double precision NOT NULL,
	"at_ms" double precision NOT NULL,
	CONSTRAINT "call_rates_task_id_host_pk" PRIMARY KEY("task_id","host")
);
--> statement-breakpoint
CREATE TABLE "call_usage" (
	"task_id" text PRIMARY KEY NOT NULL,
	"calls" bigint NOT NULL,
	"bytes_up" bigint NOT NULL,
	"bytes_down" bigint NOT NULL
);
--> statement-breakpoint
CREATE TABLE "calls" (
	"task_id" text NOT NULL,
	"fence" bigint NOT NULL,
	"seq" integer NOT NULL,
	"digest" text NOT NULL,
	"used_at" timestamp with time zone,
	"deadline_at" timestamp with time zone NOT NULL,
	CONSTRAINT "calls_task_id_fence_seq_pk" PRIMARY KEY("task_id","fence","seq")
);
--> statement-breakpoint
CREATE TABLE "receipts" (
	"task_id" text NOT NULL,
	"fence" bigint NOT NULL,
	"seq" integer NOT NULL,
	"lease_id" text NOT NULL,
	"jwt" text NOT NULL,
	"leaf" text NOT NULL,
	"issued_at" timestamp with time zone NOT NULL,
	CONSTRAINT "receipts_task_id_fence_seq_pk" PRIMARY KEY("task_id","fence","seq")
);
--> statement-breakpoint
CREATE TABLE "secrets" (
	"key_id" text NOT NULL,
	"name" text NOT NULL,
	"hosts" jsonb NOT NULL,
	"sealed" text NOT NULL,
	"created_at" timestamp with time zone NOT NULL,
	"updated_at" timestamp with time zone NOT NULL,
	CONSTRAINT "secrets_key_id_name_pk" PRIMARY KEY("key_id","name")
);
--> statement-breakpoint
CREATE TABLE "task_policies" (
	"task_id" text PRIMARY KEY NOT NULL,
	"policy" jsonb NOT NULL,
	"updated_at" timestamp with time zone NOT NULL
);
--> statement-breakpoint
-- Ids are compared in byte order, as everywhere (0001).
alter table calls alter column task_id type text collate "C";
alter table receipts alter column task_id type text collate "C", alter column lease_id type text collate "C";
alter table call_usage alter column task_id type text collate "C";
alter table call_rates alter column task_id type text collate "C", alter column host type text collate "C";
alter table task_policies alter column task_id type text collate "C";
alter table secrets alter column key_id type text collate "C", alter column name type text collate "C";
