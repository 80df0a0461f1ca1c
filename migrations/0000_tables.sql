CREATE TABLE "artifacts" (
	"key_id" text NOT NULL,
	"digest" text NOT NULL,
	"size_bytes" bigint NOT NULL,
	"created_at" timestamp with time zone NOT NULL,
	CONSTRAINT "artifacts_key_id_digest_pk" PRIMARY KEY("key_id","digest")
);
--> statement-breakpoint
CREATE TABLE "attestations" (
	"id" text NOT NULL,
	"task_id" text NOT NULL,
	"fence" bigint NOT NULL,
	"jwt" text NOT NULL,
	"evidence" text NOT NULL,
	"issued_at" timestamp with time zone NOT NULL,
	CONSTRAINT "attestations_task_id_fence_pk" PRIMARY KEY("task_id","fence")
);
--> statement-breakpoint
CREATE TABLE "end_counts" (
	"state" text NOT NULL,
	"part" smallint NOT NULL,
	"count" bigint NOT NULL,
	CONSTRAINT "end_counts_state_part_pk" PRIMARY KEY("state","part")
);
--> statement-breakpoint
CREATE TABLE "executors" (
	"id" text PRIMARY KEY NOT NULL,
	"public_key_x" text NOT NULL,
	"capacity" integer[] NOT NULL,
	"free" integer[] NOT NULL,
	"images" jsonb NOT NULL,
	"running" integer NOT NULL,
	"build" text NOT NULL,
	"host" jsonb NOT NULL,
	"draining" boolean NOT NULL,
	"enrolled_at" timestamp with time zone NOT NULL,
	"last_seen_at" timestamp with time zone NOT NULL,
	CONSTRAINT "executors_public_key" UNIQUE("public_key_x")
);
--> statement-breakpoint
CREATE TABLE "holdings" (
	"executor_id" text NOT NULL,
	"amounts" bigint[] NOT NULL
);
--> statement-breakpoint
CREATE TABLE "keys" (
	"id" text PRIMARY KEY NOT NULL,
	"name" text NOT NULL,
	"scopes" jsonb NOT NULL,
	"secret_hash" "bytea" NOT NULL,
	"created_at" timestamp with time zone NOT NULL,
	"expires_at" timestamp with time zone,
	"revoked_at" timestamp with time zone,
	"last_used_at" timestamp with time zone
);
--> statement-breakpoint
CREATE TABLE "leases" (
	"id" text PRIMARY KEY NOT NULL,
	"task_id" text NOT NULL,
	"executor_id" text NOT NULL,
	"fence" bigint NOT NULL,
	"attempt" integer NOT NULL,
	"attempts_max" integer NOT NULL,
	"granted_at" timestamp with time zone NOT NULL,
	"leased_seq" integer NOT NULL,
	"expires_at" timestamp with time zone NOT NULL,
	"cancel_requested" boolean NOT NULL,
	"last_seq" integer NOT NULL,
	"started_at" timestamp with time zone,
	"started_seq" integer
);
--> statement-breakpoint
CREATE TABLE "past_leases" (
	"id" text PRIMARY KEY NOT NULL,
	"task_id" text NOT NULL,
	"fence" bigint NOT NULL,
	"executor_id" text NOT NULL,
	"lease_end" text NOT NULL
);
--> statement-breakpoint
CREATE TABLE "queue" (
	"rank" bigint NOT NULL,
	"available_at" timestamp with time zone NOT NULL,
	"fence" bigint NOT NULL,
	"attempts" integer NOT NULL,
	"attempts_max" integer NOT NULL,
	"last_seq" integer NOT NULL,
	"cpu_millis" integer NOT NULL,
	"memory_mb" integer NOT NULL,
	"gpu_memory_mb" integer NOT NULL,
	"disk_iops" integer NOT NULL,
	"network_mbps" integer NOT NULL,
	"pids" integer NOT NULL,
	"disk_mb" integer NOT NULL,
	"priority" smallint NOT NULL,
	"task_id" text NOT NULL,
	"lease_id" text NOT NULL,
	"key_id" text NOT NULL,
	"spec_digest" text NOT NULL,
	"image_name" text,
	"spec" json
);
--> statement-breakpoint
CREATE TABLE "shares" (
	"key_id" text NOT NULL,
	"priority" smallint NOT NULL,
	"last_rank" bigint NOT NULL,
	CONSTRAINT "shares_key_id_priority_pk" PRIMARY KEY("key_id","priority")
);
--> statement-breakpoint
CREATE TABLE "task_events" (
	"task_id" text NOT NULL,
	"seq" integer NOT NULL,
	"at" timestamp with time zone NOT NULL,
	"type" text NOT NULL,
	"fence" bigint NOT NULL,
	"state" text,
	"reason" text,
	"stream" text,
	"offset" bigint,
	"data" text,
	CONSTRAINT "task_events_task_id_seq_pk" PRIMARY KEY("task_id","seq")
);
--> statement-breakpoint
CREATE TABLE "tasks" (
	"id" text PRIMARY KEY NOT NULL,
	"key_id" text NOT NULL,
	"idempotency_key" text,
	"lease_id" text NOT NULL,
	"spec_digest" text NOT NULL,
	"spec" json NOT NULL,
	"labels" jsonb NOT NULL,
	"image_name" text,
	"resources" integer[] NOT NULL,
	"priority" smallint NOT NULL,
	"rank" bigint NOT NULL,
	"attempts_max" integer NOT NULL,
	"created_at" timestamp with time zone NOT NULL,
	"state" text NOT NULL,
	"fence" bigint NOT NULL,
	"attempts" integer NOT NULL,
	"executor_id" text,
	"lease_end" text,
	"cancel_requested" boolean NOT NULL,
	"last_seq" integer NOT NULL,
	"leased_at" timestamp with time zone,
	"leased_seq" integer,
	"started_at" timestamp with time zone,
	"started_seq" integer,
	"finished_at" timestamp with time zone,
	"reason" text,
	"result" json,
	"attestation_id" text
);
--> statement-breakpoint
CREATE TABLE "turns" (
	"priority" smallint PRIMARY KEY NOT NULL,
	"rank" bigint NOT NULL
);
--> statement-breakpoint
CREATE INDEX "holdings_by_executor" ON "holdings" USING btree ("executor_id");--> statement-breakpoint
CREATE INDEX "leases_cancelled" ON "leases" USING btree ("executor_id") WHERE cancel_requested;--> statement-breakpoint
CREATE INDEX "queue_order" ON "queue" USING btree ("priority" desc,"rank","task_id");--> statement-breakpoint
CREATE INDEX "tasks_by_key" ON "tasks" USING btree ("key_id","id");--> statement-breakpoint
CREATE UNIQUE INDEX "tasks_lease" ON "tasks" USING btree ("lease_id");--> statement-breakpoint
CREATE UNIQUE INDEX "tasks_idempotency" ON "tasks" USING btree ("key_id","idempotency_key") WHERE idempotency_key is not null;--> statement-breakpoint
CREATE INDEX "tasks_labels" ON "tasks" USING gin (labels jsonb_path_ops) WHERE labels <> '{}'::jsonb;