package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/policy"
	"github.com/oncekey/oncekey/policy/tablefile"
)

// lintCommand checks files of policies.
type lintCommand struct {
	Files []string `arg:"" name:"file" help:"A file of policies, see package policy/tablefile."`
}

// lintLine is a route of a file, or a fault.
type lintLine struct {
	File   string `json:"file"`
	Route  string `json:"route,omitempty"`
	Policy string `json:"policy,omitempty"`
	Fault  string `json:"fault,omitempty"`
}

// Run implements the command.
func (c *lintCommand) Run(out *printer) error {
	engine, err := core.New(anyStore{memstore.New()}, core.SharedScope)
	if err != nil {
		return err
	}
	all := []lintLine{}
	var failed error
	for _, name := range c.Files {
		table, err := declareFile(engine, name)
		if err != nil {
			for _, line := range linesOf(err) {
				all = append(all, lintLine{File: name, Fault: line})
			}
			failed = errNothing
			continue
		}
		for _, row := range table.Declarations() {
			all = append(all, lintLine{File: name, Route: row.Route(), Policy: row.Policy.String()})
		}
	}
	if !out.isTable() {
		return cmp.Or(documents(out, all, all), failed)
	}
	for _, line := range all {
		if line.Fault != "" {
			out.line("%s", line.Fault)
			continue
		}
		out.line("%s: %s: %s", line.File, line.Route, line.Policy)
	}
	return failed
}

// declareFile reads a file of policies, and gives them to an engine as a program does. The error
// names each row that the engine refuses: a table does not read the paths of its fields.
func declareFile(engine *core.Engine, name string) (*policy.Table, error) {
	table, err := tablefile.Read(name)
	if err != nil {
		return nil, err
	}
	var all []error
	for _, row := range table.Declarations() {
		route, err := engine.Route(policy.From(row.Policy))
		if err != nil {
			all = append(all, fmt.Errorf("%s: %s: %w", row.Source, row.Route(), err))
			continue
		}
		route.Declare(core.Endpoint{Method: row.Method, Pattern: row.Pattern})
	}
	return table, errors.Join(all...)
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
	return "oncekey " + cmp.Or(version, "-") + " " + compiler
}

// versions returns the versions of the command and of Go. The first is empty for a binary
// that was built without modules.
func versions() (version, compiler string) {
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	return version, runtime.Version()
}

// completionCommand prints the completion script for a shell.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Run implements the command.
func (c *completionCommand) Run(out *printer, model *kong.Application) error {
	script := bashScript(model)
	switch c.Shell {
	case "zsh":
		// A plain zsh, such as macOS has, has not loaded compinit, which bashcompinit needs.
		script = "(( ${+functions[compdef]} )) || { autoload -U +X compinit && compinit }\nautoload -U +X bashcompinit && bashcompinit\n" + script
	case "fish":
		script = fishScript(model)
	}
	_, err := io.WriteString(out.out, script)
	return err
}

func bashScript(model *kong.Application) string {
	var script strings.Builder
	var commands []string
	script.WriteString("_oncekey() {\n  local word=${COMP_WORDS[COMP_CWORD]}\n  case ${COMP_WORDS[1]} in\n")
	for _, node := range model.Children {
		commands = append(commands, node.Name)
		fmt.Fprintf(&script, "    %s) [[ $COMP_CWORD -gt 1 ]] && { COMPREPLY=($(compgen -f -W '%s' -- \"$word\")); return; } ;;\n",
			node.Name, strings.Join(flagsOf(node), " "))
	}
	fmt.Fprintf(&script, "  esac\n  COMPREPLY=($(compgen -W '%s' -- \"$word\"))\n}\ncomplete -F _oncekey oncekey\n", strings.Join(commands, " "))
	return script.String()
}

func fishScript(model *kong.Application) string {
	var script strings.Builder
	for _, node := range model.Children {
		fmt.Fprintf(&script, "complete -c oncekey -f -n __fish_use_subcommand -a %s -d '%s'\n", node.Name, strings.ReplaceAll(node.Help, "'", ""))
		for _, flag := range flagsOf(node) {
			fmt.Fprintf(&script, "complete -c oncekey -n '__fish_seen_subcommand_from %s' -l %s\n", node.Name, strings.TrimPrefix(flag, "--"))
		}
	}
	return script.String()
}

// flagsOf returns the flags that a command and its own commands take.
func flagsOf(node *kong.Node) (names []string) {
	for _, group := range node.AllFlags(true) {
		for _, flag := range group {
			names = append(names, "--"+flag.Name)
		}
	}
	for _, child := range node.Children {
		names = append(names, flagsOf(child)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
