// Command release prints the commands that release a version: the requirements that each published module needs, and the
// tags in order of dependency. It changes and tags nothing.
//
//	release -version v0.1.0 .. . core/pgstore adapters/otel adapters/inspector/oncekey
//
// The first argument is the checkout, and the others are the folders of its published modules.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

func main() {
	version := flag.String("version", "", "the version to release, such as v0.1.0")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *version, flag.Args()); err != nil {
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
	if len(args) < 2 {
		return errors.New("want the folder of the checkout and those of its published modules")
	}
	if !semver.IsValid(version) || semver.Canonical(version) != version {
		return fmt.Errorf("VERSION is %q: want a semantic version such as v0.1.0", version)
	}
	if major := semver.Major(version); major != "v0" && major != "v1" {
		return fmt.Errorf("VERSION is %q: the module paths have no /%s, want v0 or v1", version, major)
	}
	checkout := args[0]
	if err := checkClean(ctx, checkout); err != nil {
		return err
	}
	modules, err := read(checkout, args[1:])
	if err != nil {
		return err
	}
	if modules, err = order(modules); err != nil {
		return err
	}
	printPlan(out, modules, version)
	return nil
}

func checkClean(ctx context.Context, checkout string) error {
	command := exec.CommandContext(ctx, "git", "status", "--porcelain")
	command.Dir = checkout
	changed, err := command.Output()
	if err != nil {
		return fmt.Errorf("git status: %w", err)
	}
	if len(changed) > 0 {
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

// order returns the modules so that each comes after those that it requires.
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

// printPlan writes the edits that are missing, and the tags. The edits are one commit that all tags point to: each go.mod
// replaces the others by the checkout, so it can require a version that is not published yet.
func printPlan(out io.Writer, modules []module, version string) {
	var edits []string
	for _, m := range modules {
		for _, required := range m.among(modules) {
			if m.requires[required.path] != version {
				edits = append(edits, fmt.Sprintf("go -C %s mod edit -require=%s@%s", m.folder, required.path, version))
			}
		}
	}
	if len(edits) > 0 {
		fmt.Fprintf(out, "# First, one commit with these requirements:\n%s\nmake tidy\n", strings.Join(edits, "\n"))
	}
	fmt.Fprintln(out, "# Then the tags, each after those of the modules that it requires:")
	for _, m := range modules {
		if !m.isCommand {
			fmt.Fprintln(out, m.publish(version))
		}
	}
	for _, m := range modules {
		if m.isCommand {
			m.printCommand(out, version)
		}
	}
}

func (m module) publish(version string) string {
	return fmt.Sprintf("git tag %s && git push origin %s", m.tag(version), m.tag(version))
}

// printCommand writes how to tag a command. go install refuses a go.mod that replaces modules, so the tag points to a
// commit beside the branch, which requires the published modules.
func (m module) printCommand(out io.Writer, version string) {
	fmt.Fprintf(out, "# Last %s, whose tag has a go.mod without replacements:\ngit checkout --detach\n", m.folder)
	for _, replaced := range m.replaces {
		fmt.Fprintf(out, "go -C %s mod edit -dropreplace=%s\n", m.folder, replaced)
	}
	fmt.Fprintf(out, "GOWORK=off go -C %s mod tidy && git commit -am 'Require %s of the library'\n%s\ngit checkout -\n", m.folder, version, m.publish(version))
}
