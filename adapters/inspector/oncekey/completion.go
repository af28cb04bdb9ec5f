package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// completionCommand prints the completion script for a shell.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Run implements the command.
func (c *completionCommand) Run(out *printer, model *kong.Application) error {
	script := bashScript(model)
	switch c.Shell {
	case "zsh":
		script = "autoload -U +X bashcompinit && bashcompinit\n" + script
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
