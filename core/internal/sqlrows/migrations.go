package sqlrows

import (
	"embed"
	"io/fs"
	"strconv"
	"strings"
)

//go:embed migrations
var migrationFiles embed.FS

// Migration is one version step of the tables. It has several statements. Each ends in a
// semicolon at the end of a line, and has no other semicolon. The last one adds the version.
type Migration struct {
	Version   int
	Name, SQL string
}

// Migrations returns all steps in order.
func (d *Tables) Migrations(table string) []Migration {
	names, err := fs.Glob(migrationFiles, "migrations/"+d.Folder+"/*.sql")
	if err != nil {
		panic("sqlrows: " + err.Error()) // only a malformed pattern fails
	}
	migrations := make([]Migration, len(names))
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
		versioned := string(text) + "\n" + createVersions + ";\n" + strings.ReplaceAll(d.AddVersion, "{version}", strconv.Itoa(version)) + ";\n"
		migrations[i] = Migration{Version: version, Name: title, SQL: InTable(table, versioned)}
	}
	return migrations
}
