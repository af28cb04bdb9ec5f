package main

import (
	"runtime"
	"runtime/debug"

	"github.com/oncekey/oncekey/policy/tablefile"
)

// lintCommand checks files of policies.
type lintCommand struct {
	Files []string `arg:"" name:"file" help:"A file of policies, see package policy/tablefile."`
}

// Run implements the command.
func (c *lintCommand) Run(out *printer) error {
	var failed error
	for _, name := range c.Files {
		table, err := tablefile.Read(name)
		if err != nil {
			for _, line := range linesOf(err) {
				out.line("%s", line)
			}
			failed = errNothing
			continue
		}
		for _, row := range table.Declarations() {
			out.line("%s: %s: %s", name, row.Route(), row.Policy.String())
		}
	}
	return failed
}

// versionCommand prints the version.
type versionCommand struct{}

// Run implements the command.
func (versionCommand) Run(out *printer) error {
	if !out.isTable() {
		version, compiler := versions()
		return out.document(map[string]string{"version": version, "go": compiler})
	}
	out.line("%s", versionText())
	return nil
}

func versionText() string {
	version, compiler := versions()
	return "oncekey " + or(version) + " " + compiler
}

// versions returns the versions of the command and of Go. The first is empty for a binary
// that was built without modules.
func versions() (version, compiler string) {
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	return version, runtime.Version()
}
