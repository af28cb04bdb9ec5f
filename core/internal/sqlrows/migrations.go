package sqlrows

import (
	"embed"
	"io/fs"
	"strconv"
	"strings"
)

// The files of the migrations serve all databases. {table} and {name} are names, and other
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

// templates returns all steps of a database in order, with their place-holders.
func templates(database string) []Migration {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		panic("sqlrows: " + err.Error()) // only a malformed pattern fails
	}
	steps := make([]Migration, len(names))
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
		steps[i] = Migration{Version: version, Name: title, SQL: linesFor(database, string(text))}
	}
	return steps
}

// linesFor returns the lines of a text that are for a database.
func linesFor(database, text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		rest, own := strings.CutPrefix(line, "{"+database+"}")
		if own || !strings.HasPrefix(line, "{") {
			out.WriteString(rest)
		}
	}
	return out.String()
}
