-- The key that the secrets of this database are sealed under, by its digest.
CREATE TABLE "secrets_key" (
	"only" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"digest" text NOT NULL,
	"claimed_at" timestamp with time zone NOT NULL,
	CONSTRAINT "secrets_key_only" CHECK ("secrets_key"."only")
);
