package sqlrows

import (
	"embed"
	"io/fs"
	"strconv"
	"strings"
)

// The files of the migrations serve all databases. {table} and {index} are names, and other
// words in braces are types of Tables. A line that begins with a database in braces is for
// that database alone.
//
//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migration is one version step of the tables. It has several statements. Each ends in a
// semicolon at the end of a line, and has no other semicolon. The last one adds the version.
type Migration struct {
	Version   int
	Name, SQL string
}

// Migrations returns all steps in order.
func (d *Tables) Migrations(table string) []Migration {
	migrations := d.templates()
	for i, m := range migrations {
		text := m.SQL + "\n" + createVersions + ";\n" + strings.ReplaceAll(d.AddVersion, "{version}", strconv.Itoa(m.Version)) + ";\n"
		for name, types := range d.Types {
			text = strings.ReplaceAll(text, "{"+name+"}", types[0])
		}
		migrations[i].SQL = InTable(table, text)
	}
	return migrations
}

// templates returns the steps with their place-holders, and without the lines for other
// databases.
func (d *Tables) templates() []Migration {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		panic("sqlrows: " + err.Error()) // only a malformed pattern fails
	}
	templates := make([]Migration, len(names))
	for i, name := range names {
		text, err := migrationFiles.ReadFile(name)
		if err != nil {
			panic("sqlrows: " + err.Error()) // the file is embedded
		}
		number, title, _ := strings.Cut(strings.TrimSuffix(name[strings.LastIndexByte(name, '/')+1:], ".sql"), "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+1 {
			panic("sqlrows: " + name + " is out of order")
		}
		templates[i] = Migration{Version: version, Name: title, SQL: d.lines(string(text))}
	}
	return templates
}

// lines returns the lines of a text that are for the database.
func (d *Tables) lines(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		rest, own := strings.CutPrefix(line, "{"+d.Database+"}")
		if own || !strings.HasPrefix(line, "{") {
			out.WriteString(rest)
		}
	}
	return out.String()
}
