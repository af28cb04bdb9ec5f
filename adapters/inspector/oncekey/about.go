package main

import (
	"fmt"
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
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return fmt.Errorf("the binary has no build information: build it with Go modules")
	}
	if !out.isTable() {
		return out.document(map[string]string{"version": info.Main.Version, "go": info.GoVersion})
	}
	out.line("oncekey %s %s", or(info.Main.Version), info.GoVersion)
	return nil
}
