package main

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

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
			out.line("%s", err)
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

// completionCommand prints the completion script for a shell.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Run implements the command.
func (c *completionCommand) Run(out *printer, model *kong.Application) error {
	var commands []string
	flags := make(map[string]string)
	for _, node := range model.Children {
		commands = append(commands, node.Name)
		flags[node.Name] = strings.Join(flagsOf(node), " ")
	}
	if c.Shell == "fish" {
		for _, node := range model.Children {
			out.line("complete -c oncekey -f -n __fish_use_subcommand -a %s -d '%s'", node.Name, strings.ReplaceAll(node.Help, "'", ""))
			for _, flag := range flagsOf(node) {
				out.line("complete -c oncekey -n '__fish_seen_subcommand_from %s' -l %s", node.Name, strings.TrimPrefix(flag, "--"))
			}
		}
		return nil
	}
	if c.Shell == "zsh" {
		out.line("autoload -U +X bashcompinit && bashcompinit")
	}
	out.line("_oncekey() {")
	out.line("  local word=${COMP_WORDS[COMP_CWORD]}")
	out.line("  case ${COMP_WORDS[1]} in")
	for _, name := range commands {
		out.line("    %s) [[ $COMP_CWORD -gt 1 ]] && { COMPREPLY=($(compgen -f -W '%s' -- \"$word\")); return; } ;;", name, flags[name])
	}
	out.line("  esac")
	out.line("  COMPREPLY=($(compgen -W '%s' -- \"$word\"))", strings.Join(commands, " "))
	out.line("}")
	out.line("complete -F _oncekey oncekey")
	return nil
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
