package sqlrows

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/oncekey/oncekey/core/internal/schema"
	"github.com/oncekey/oncekey/core/storage"
)

// Session runs statements without parameters, on one connection or on a pool.
type Session interface {
	Run(ctx context.Context, text string) error
	// Each calls take for each row that a statement reads. take calls scan once.
	Each(ctx context.Context, text string, take func(scan func(into ...any) error) error) error
}

// Rows are those of a driver.
type Rows interface {
	Next() bool
	Scan(into ...any) error
	Err() error
}

// Take is Each over rows, which the caller closes.
func Take(rows Rows, take func(scan func(into ...any) error) error) error {
	for rows.Next() {
		if err := take(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Tables are a database's words for the table of the records, and for that of the versions.
type Tables struct {
	// Database names it in the migrations.
	Database string
	// Lock begins a migration, and Unlock ends one. Undo ends a failed one.
	Lock, Unlock, Undo []string
	// LockOrNot is a query that takes the lock, and returns whether it has. Empty: Lock takes it.
	LockOrNot string
	// AddVersion adds {version} to the table of the versions, unless it is there.
	AddVersion string
	// Types are those of the columns, and Describe is the query for them.
	Types    map[string][]string
	Describe string
}

// PostgreSQLTables are the tables in PostgreSQL.
func PostgreSQLTables() Tables {
	return Tables{
		Database: "postgresql",
		Lock: []string{
			// Read committed: after the wait for the lock, the statements see the commit of the
			// migration before.
			`BEGIN ISOLATION LEVEL READ COMMITTED`,
			`SELECT pg_advisory_xact_lock(hashtextextended('oncekey migrations of {table}', 0))`,
			`SET LOCAL lock_timeout = '3s'`,
		},
		Unlock:     []string{`COMMIT`},
		Undo:       []string{`ROLLBACK`},
		AddVersion: `INSERT INTO {table}_migrations (version) VALUES ({version}) ON CONFLICT DO NOTHING`,
		Types:      postgresqlTypes,
		Describe:   postgresqlTable,
	}
}

// MySQLTables are the tables in MySQL and MariaDB.
func MySQLTables() Tables {
	return Tables{
		Database:   "mysql",
		LockOrNot:  `SELECT coalesce(GET_LOCK(` + mysqlLock + `, 60), 0)`,
		Unlock:     []string{`DO RELEASE_LOCK(` + mysqlLock + `)`},
		Undo:       []string{`DO RELEASE_LOCK(` + mysqlLock + `)`},
		AddVersion: `INSERT IGNORE INTO {table}_migrations (version) VALUES ({version})`,
		Types:      mysqlTypes,
		Describe:   mysqlTable,
	}
}

// mysqlLock is the name of a lock of the server, for a table of one database. It may have 64
// characters, and a schema and a table have more.
const mysqlLock = `sha2(concat_ws(' in ', 'oncekey migrations of {table}', database()), 224)`

// SQLiteTables are the tables in SQLite.
func SQLiteTables() Tables {
	return Tables{
		Database:   "sqlite",
		Lock:       []string{`BEGIN IMMEDIATE`},
		Unlock:     []string{`COMMIT`},
		Undo:       []string{`ROLLBACK`},
		AddVersion: `INSERT INTO {table}_migrations (version) VALUES ({version}) ON CONFLICT DO NOTHING`,
		Types:      sqliteTypes,
		Describe:   sqliteTable,
	}
}

// Migrations returns all steps in order.
func (d *Tables) Migrations(table string) []Migration {
	migrations := templates(d.Database)
	for i, m := range migrations {
		text := m.SQL + "\n" + createVersions + ";\n" + strings.ReplaceAll(d.AddVersion, "{version}", strconv.Itoa(m.Version)) + ";\n"
		for name, types := range d.Types {
			text = strings.ReplaceAll(text, "{"+name+"}", types[0])
		}
		migrations[i].SQL = InTable(table, text)
	}
	return migrations
}

// Migrate runs the steps that a table lacks on one connection, under a lock, and proves the
// table in the end: CREATE TABLE leaves another table of its name as it is. Where no step is
// missing it needs no right to create tables.
func (d *Tables) Migrate(ctx context.Context, on Session, table string) error {
	steps := d.Migrations(table)
	if current, err := Version(ctx, on, table); err == nil && current >= len(steps) {
		return d.Prove(ctx, on, table)
	}
	if _, err := d.describe(ctx, on, table); err != nil { // of a connection that cannot run the steps
		return err
	}
	err := d.migrate(ctx, on, table, steps)
	if err != nil {
		_ = runAll(context.WithoutCancel(ctx), on, table, d.Undo) // its error adds no information
	}
	return err
}

// migrate runs the steps that a table lacks, under a lock.
func (d *Tables) migrate(ctx context.Context, on Session, table string, steps []Migration) error {
	if err := d.lock(ctx, on, table); err != nil {
		return err
	}
	if err := runAll(ctx, on, table, []string{createVersions}); err != nil {
		return err
	}
	current, err := Version(ctx, on, table)
	if err != nil {
		return err
	}
	for _, step := range steps[min(current, len(steps)):] {
		if err := runAll(ctx, on, table, split(step.SQL)); err != nil {
			return fmt.Errorf("version %d (%s): %w", step.Version, step.Name, err)
		}
	}
	if err := d.Prove(ctx, on, table); err != nil {
		return err
	}
	return runAll(ctx, on, table, d.Unlock)
}

func (d *Tables) lock(ctx context.Context, on Session, table string) error {
	if d.LockOrNot == "" {
		return runAll(ctx, on, table, d.Lock)
	}
	var locked bool
	err := on.Each(ctx, InTable(table, d.LockOrNot), func(scan func(into ...any) error) error { return scan(&locked) })
	if err == nil && !locked {
		err = errors.New("another migration has had the lock for a minute: run this one again when it has ended")
	}
	return err
}

func runAll(ctx context.Context, on Session, table string, statements []string) error {
	for _, statement := range statements {
		if err := on.Run(ctx, InTable(table, statement)); err != nil {
			return err
		}
	}
	return nil
}

const createVersions = `CREATE TABLE IF NOT EXISTS {table}_migrations (version INTEGER NOT NULL PRIMARY KEY)`

// Version is the newest version of a table that has run.
func Version(ctx context.Context, on Session, table string) (version int, err error) {
	err = on.Each(ctx, InTable(table, `SELECT coalesce(max(version), 0) FROM {table}_migrations`), func(scan func(into ...any) error) error {
		return scan(&version)
	})
	return version, err
}

// split returns the statements of a migration.
func split(text string) (statements []string) {
	for _, statement := range strings.SplitAfter(text, ";\n") {
		if strings.TrimSpace(statement) != "" {
			statements = append(statements, statement)
		}
	}
	return statements
}

// The types of each database: the migrations', and others that do, in the words of its catalog.
var (
	postgresqlTypes = map[string][]string{
		"key": {"varchar(64)", "character varying(64)", "text"}, "word": {"varchar(16)", "character varying(16)", "text"},
		"small": {"smallint"}, "big": {"bigint"}, "token": {"bytea"}, "bytes": {"bytea"}, "text": {"text"}, "longbytes": {"bytea"}, "longtext": {"text"},
	}
	mysqlTypes = map[string][]string{
		"key": {"varchar(64)" + mysqlASCII, "varchar(64)"}, "word": {"varchar(16)" + mysqlASCII, "varchar(16)"},
		"small": {"smallint"}, "big": {"bigint"}, "token": {"binary(16)"}, "bytes": {"blob", "mediumblob", "longblob"},
		"text": {"text" + mysqlASCII, "text", "mediumtext", "longtext"}, "longbytes": {"longblob"}, "longtext": {"longtext" + mysqlASCII, "longtext"},
	}
	sqliteTypes = map[string][]string{
		"key": {"TEXT"}, "word": {"TEXT"}, "small": {"INTEGER"}, "big": {"INTEGER"}, "token": {"BLOB"}, "bytes": {"BLOB"}, "text": {"TEXT"},
		"longbytes": {"BLOB"}, "longtext": {"TEXT"},
	}
)

const mysqlASCII = ` CHARACTER SET ascii COLLATE ascii_bin`

// The queries for the columns of a table: name, type, whether it takes null, has a value
// without the store, and has a unique index of its own. A row without a name has a fault
// of the connection: policies may accept a claim and refuse its settlement, and without autocommit,
// or in the transaction that a COMMIT begins, no record is committed.
const (
	postgresqlTable = `
SELECT a.attname, replace(format_type(a.atttypid, a.atttypmod), '"', ''), NOT a.attnotnull, a.atthasdef OR a.attidentity <> '',
	EXISTS (SELECT 1 FROM pg_index AS i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid AND i.indimmediate
		AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum)
FROM pg_attribute AS a WHERE a.attrelid = to_regclass('{table}') AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL SELECT ' ', 'row-level security is active for role ' || quote_ident(current_user) || ', run: ALTER TABLE {table} DISABLE ROW LEVEL SECURITY',
	false, true, false WHERE row_security_active(to_regclass('{table}'))`

	mysqlTable = `
SELECT c.column_name, c.column_type, c.is_nullable = 'YES', c.column_default IS NOT NULL OR length(c.extra) > 0,
	EXISTS (SELECT 1 FROM information_schema.statistics AS s WHERE s.table_schema = {database} AND s.table_name = '{name}'
		AND s.column_name = c.column_name AND s.non_unique = 0 AND s.seq_in_index = 1 AND s.sub_part IS NULL
		AND NOT EXISTS (SELECT 1 FROM information_schema.statistics AS o WHERE o.table_schema = {database}
			AND o.table_name = '{name}' AND o.index_name = s.index_name AND o.seq_in_index = 2))
FROM information_schema.columns AS c WHERE c.table_schema = {database} AND c.table_name = '{name}'
UNION ALL SELECT ' ', 'the connection commits nothing: set autocommit=1', 0, 1, 0 FROM DUAL WHERE @@autocommit = 0
UNION ALL SELECT ' ', 'after a COMMIT the connection commits nothing: set completion_type=NO_CHAIN', 0, 1, 0 FROM DUAL
	WHERE @@completion_type = 'CHAIN'
UNION ALL SELECT ' ', 'the store cannot work in this sql_mode: take ORACLE and EMPTY_STRING_IS_NULL out of it', 0, 1, 0 FROM DUAL
	WHERE find_in_set('ORACLE', @@sql_mode) + find_in_set('EMPTY_STRING_IS_NULL', @@sql_mode) > 0`

	sqliteTable = `
SELECT c.name, upper(c.type), c."notnull" = 0, c.dflt_value IS NOT NULL,
	EXISTS (SELECT 1 FROM pragma_index_list('{table}') AS l WHERE l."unique" = 1 AND l.partial = 0
		AND (SELECT group_concat(i.name) FROM pragma_index_info(l.name) AS i) = c.name)
FROM pragma_table_info('{table}') AS c`
)

// displayWidth is the width that MariaDB adds to a type of integers.
var displayWidth = regexp.MustCompile(`^(smallint|bigint)\(\d+\)$`)

// Prove returns an error unless the table is as expected.
func (d *Tables) Prove(ctx context.Context, on Session, table string) error {
	found, err := d.describe(ctx, on, table)
	if err != nil {
		return err
	}
	expected := d.expected(templates(d.Database))
	return expected.Prove(table, found)
}

// describe returns the columns of the table, or an error for a connection that cannot keep records.
func (d *Tables) describe(ctx context.Context, on Session, table string) (found []schema.Found, err error) {
	var faulty string
	err = on.Each(ctx, InTable(table, d.Describe), func(scan func(into ...any) error) error {
		var f schema.Found
		err := scan(&f.Name, &f.Type, &f.Null, &f.Filled, &f.Unique)
		f.Type = displayWidth.ReplaceAllString(f.Type, "$1")
		if f.Name == " " {
			faulty = f.Type
			return err
		}
		found = append(found, f)
		return err
	})
	if err == nil && faulty != "" {
		err = fmt.Errorf("%w: table %s: %s", storage.ErrNotStorable, table, faulty)
	}
	return found, err
}

// column matches a column in a template: a line of CREATE TABLE, or the statement that adds it.
var column = regexp.MustCompile(`(?m)^(?:\t|ALTER TABLE \{table\} ADD COLUMN )([a-z_]+) +\{(\w+)\}( NOT NULL)?`)

// expected is the table that templates create.
func (d *Tables) expected(steps []Migration) schema.Table {
	expected := schema.Table{Key: "record_key"}
	for _, step := range steps {
		for _, c := range column.FindAllStringSubmatch(step.SQL, -1) {
			expected.Columns = append(expected.Columns, schema.Column{Name: c[1], Types: d.Types[c[2]], Null: c[3] == ""})
		}
	}
	return expected
}
