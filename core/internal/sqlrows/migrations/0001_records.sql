-- Times are microseconds since 1970 in UTC, by the database's clock.
CREATE TABLE IF NOT EXISTS {table} (
	record_key   {key} NOT NULL PRIMARY KEY,
	-- The format of the columns. A program refuses a row of a version that it does not know.
	version      {small} NOT NULL,
	-- in_progress, completed, failed, unreplayable, released, forgotten (only an attempt number is left) or gone (a tombstone).
	state        {word} NOT NULL,
	attempt      {big} NOT NULL,
	took_over    {small} NOT NULL,
	token        {token} NOT NULL,
	-- Each write of the row adds one.
	revision     {big} NOT NULL,
	-- 0xff and the 32 bytes of a SHA-256, or any other text.
	fingerprint  {bytes} NOT NULL,
	digest       {token},
	-- Route, holder, hash of the key, trace and program of the claim, in five lines.
	origin       {text},
	lease_until  {big},
	-- When the record becomes a tombstone. Null: the record has none, or is one.
	retain_until {big},
	-- When the row counts as missing, swept or not.
	expires_at   {big} NOT NULL,
	-- The full hour after the next of both ends, for the sweeper's index. It hardly ever changes while a request runs.
	sweep_after  {big} NOT NULL,
{mysql}	INDEX {name}_sweep_after (sweep_after),
	claimed_at   {big} NOT NULL,
	settled_at   {big},
	status       {small},
	-- A list of [operation, name, value], or of [operation, name, value, "base64"], in JSON.
	header       {longtext},
	body         {longbytes},
	sketch       {bytes},
	-- The steps that a run has recorded which is in progress or released.
	steps        {longbytes}
{postgresql}) WITH (
{postgresql}	-- Room on the page for the response that follows each claim: a HOT update needs it. A batch
{postgresql}	-- of claims fills a page before their responses come.
{postgresql}	fillfactor = 25
{postgresql});
{mysql}) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
{sqlite});
{postgresql}CREATE INDEX IF NOT EXISTS {name}_sweep_after ON {table} (sweep_after);
{sqlite}CREATE INDEX IF NOT EXISTS {name}_sweep_after ON {table} (sweep_after);
