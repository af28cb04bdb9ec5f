// Command release prints the commands that release a version: the requirements that each published module needs, and the
// tags in order of dependency. It changes and tags nothing.
//
//	release -version v0.1.0 .. . core/pgstore adapters/otel adapters/inspector/oncekey
//
// The first argument is the checkout, and the others are the folders of its published modules. With -rehearse FOLDER the
// program runs these commands in a copy of the checkout instead, makes a module proxy of the tags in FOLDER/proxy, and prints
// a GOPROXY to install from.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"

	"github.com/oncekey/oncekey/tools/internal/command"
)

func main() {
	version := flag.String("version", "", "the version to release, such as v0.1.0")
	folder := flag.String("rehearse", "", "release into a module proxy in this folder, and publish nothing")
	flag.Parse()
	var err error
	if *folder == "" {
		err = run(context.Background(), os.Stdout, *version, flag.Args())
	} else {
		err = rehearse(context.Background(), os.Stdout, *folder, *version, flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// module is one that is published.
type module struct {
	folder, path string
	requires     map[string]string // the versions of modules that it requires
	replaces     []string          // the modules that its go.mod replaces by the checkout
	isCommand    bool              // it is installed by go install
}

func (m module) tag(version string) string { return path.Join(m.folder, version) }

func run(ctx context.Context, out io.Writer, version string, args []string) error {
	modules, err := published(version, args)
	if err != nil {
		return err
	}
	if err := checkClean(ctx, args[0]); err != nil {
		return err
	}
	printPlan(out, plan(modules, version))
	return nil
}

// published returns the modules to release, in order of dependency. The arguments are those of the program.
func published(version string, args []string) ([]module, error) {
	if len(args) < 2 {
		return nil, errors.New("want the folder of the checkout and those of its published modules")
	}
	if !semver.IsValid(version) || semver.Canonical(version) != version {
		return nil, fmt.Errorf("VERSION is %q: want a semantic version such as v0.1.0", version)
	}
	if major := semver.Major(version); major != "v0" && major != "v1" {
		return nil, fmt.Errorf("VERSION is %q: the module paths have no /%s, want v0 or v1", version, major)
	}
	modules, err := read(args[0], args[1:])
	if err != nil {
		return nil, err
	}
	if err := checkComplete(modules); err != nil {
		return nil, err
	}
	return order(modules)
}

// checkComplete reports a requirement of the repository's own that is not published: users could not resolve it. The
// modules of the repository are those that a go.mod replaces by the checkout.
func checkComplete(modules []module) error {
	for _, m := range modules {
		for _, replaced := range m.replaces {
			if !slices.ContainsFunc(modules, func(other module) bool { return other.path == replaced }) {
				return fmt.Errorf("%s requires %s, which is not among the published modules: add its folder to them", m.path, replaced)
			}
		}
	}
	return nil
}

func checkClean(ctx context.Context, checkout string) error {
	changed, err := command.Output(ctx, checkout, nil, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if changed != "" {
		return fmt.Errorf("the checkout has changes, want them committed:\n%s", changed)
	}
	return nil
}

func read(checkout string, folders []string) ([]module, error) {
	var modules []module
	for _, folder := range folders {
		name := filepath.Join(checkout, folder, "go.mod")
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := modfile.Parse(name, text, nil)
		if err != nil {
			return nil, err
		}
		m := module{folder: path.Clean(folder), path: file.Module.Mod.Path, requires: make(map[string]string)}
		for _, r := range file.Require {
			m.requires[r.Mod.Path] = r.Mod.Version
		}
		for _, r := range file.Replace {
			m.replaces = append(m.replaces, r.Old.Path)
		}
		if m.isCommand, err = isCommand(filepath.Join(checkout, folder)); err != nil {
			return nil, err
		}
		modules = append(modules, m)
	}
	return modules, nil
}

// isCommand reports whether a folder has a package main.
func isCommand(folder string) (bool, error) {
	text, err := os.ReadFile(filepath.Join(folder, "main.go"))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return strings.Contains("\n"+string(text), "\npackage main\n"), err
}

// order sorts the modules by dependency: a module comes after the modules that it requires.
func order(modules []module) ([]module, error) {
	var ordered []module
	for len(modules) > 0 {
		next := slices.IndexFunc(modules, func(m module) bool { return len(m.among(modules)) == 0 })
		if next < 0 {
			return nil, errors.New("the published modules require each other in a circle")
		}
		ordered = append(ordered, modules[next])
		modules = slices.Delete(modules, next, next+1)
	}
	return ordered, nil
}

// among returns those of the modules that this one requires.
func (m module) among(modules []module) []module {
	return slices.DeleteFunc(slices.Clone(modules), func(other module) bool { return m.requires[other.path] == "" })
}

// stage is a part of the plan.
type stage struct {
	comment  string
	commands []string
}

// plan returns the edits that are missing, and the tags. The edits are one commit that all tags but those of commands point
// to: each go.mod replaces the others by the checkout, so it can require a version that is not published yet.
func plan(modules []module, version string) []stage {
	edits := stage{comment: "First, one commit with the requirements:"}
	tags := stage{comment: "Then the tags, each after those of the modules that it requires:"}
	var commands []stage
	for _, m := range modules {
		for _, required := range m.among(modules) {
			if m.requires[required.path] != version {
				edits.commands = append(edits.commands, fmt.Sprintf("go -C %s mod edit -require=%s@%s", m.folder, required.path, version))
			}
		}
		if m.isCommand {
			commands = append(commands, m.command(version))
		} else {
			tags.commands = append(tags.commands, m.publish(version)...)
		}
	}
	if len(edits.commands) > 0 {
		edits.commands = append(edits.commands, "make tidy", fmt.Sprintf("git commit -am 'Require %s within the library'", version))
		return slices.Concat([]stage{edits, tags}, commands)
	}
	return slices.Concat([]stage{tags}, commands)
}

func (m module) publish(version string) []string {
	return []string{"git tag " + m.tag(version), "git push origin " + m.tag(version)}
}

// command returns how to tag a command. go install refuses a go.mod that replaces modules, so the tag points to a commit
// beside the branch, which requires the published modules.
func (m module) command(version string) stage {
	s := stage{comment: fmt.Sprintf("Last %s, whose tag has a go.mod without replacements:", m.folder), commands: []string{"git checkout --detach"}}
	for _, replaced := range m.replaces {
		s.commands = append(s.commands, fmt.Sprintf("go -C %s mod edit -dropreplace=%s", m.folder, replaced))
	}
	s.commands = append(s.commands, fmt.Sprintf("GOWORK=off go -C %s mod tidy", m.folder), fmt.Sprintf("git commit -am 'Require %s of the library'", version))
	s.commands = append(s.commands, m.publish(version)...)
	s.commands = append(s.commands, "git checkout -")
	return s
}

func printPlan(out io.Writer, stages []stage) {
	for _, s := range stages {
		fmt.Fprintf(out, "# %s\n%s\n", s.comment, strings.Join(s.commands, "\n"))
	}
}
