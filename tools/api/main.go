// Command api compares the exported API of each published module with that at its last tag, and fails when an incompatible
// change is not accepted.
//
//	api CHECKOUT MODULE...
//
// The modules are folders of the checkout. A command has no API. Accepted changes stand in tools/api/accepted.txt, one a
// line as this program prints them, until the tag that has them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"go/types"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/exp/apidiff"
	"golang.org/x/mod/semver"
	"golang.org/x/tools/go/packages"

	"github.com/oncekey/oncekey/tools/internal/command"
)

// acceptedFile is in the checkout.
const acceptedFile = "tools/api/accepted.txt"

func main() {
	flag.Parse()
	if err := run(context.Background(), os.Stdout, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "api:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	if len(args) < 2 {
		return errors.New("want the folder of the checkout and those of its published modules")
	}
	checkout, folders := args[0], args[1:]
	scratch, err := os.MkdirTemp("", "api")
	if err != nil {
		return err
	}
	changes, err := incompatible(ctx, out, comparison{checkout: checkout, scratch: scratch}, folders)
	if err := errors.Join(err, os.RemoveAll(scratch)); err != nil {
		return err
	}
	accepted, err := readAccepted(checkout)
	if err != nil {
		return err
	}
	return judge(changes, accepted)
}

// incompatible returns the incompatible changes of all modules.
func incompatible(ctx context.Context, out io.Writer, c comparison, folders []string) (changes []string, err error) {
	for _, folder := range folders {
		found, err := c.compare(ctx, out, folder)
		if err != nil {
			return nil, err
		}
		changes = append(changes, found...)
	}
	return changes, nil
}

// judge compares the incompatible changes with those that are accepted.
func judge(changes, accepted []string) error {
	without := func(lines, others []string) []string {
		return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return slices.Contains(others, line) })
	}
	if open := without(changes, accepted); len(open) > 0 {
		return fmt.Errorf("incompatible changes; make them compatible, or add these lines to %s and a word to the changelog:\n%s", acceptedFile, strings.Join(open, "\n"))
	}
	if stale := without(accepted, changes); len(stale) > 0 {
		return fmt.Errorf("%s has changes that the API has not; remove these lines:\n%s", acceptedFile, strings.Join(stale, "\n"))
	}
	return nil
}

func readAccepted(checkout string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(checkout, acceptedFile))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool { return line == "" }), nil
}

// comparison has a clone of the checkout, in which it looks at tags.
type comparison struct {
	checkout, scratch string
	cloned            bool
}

// compare prints the compatible changes of a module since its last tag, and returns the others.
func (c *comparison) compare(ctx context.Context, out io.Writer, folder string) (incompatible []string, err error) {
	tag, err := c.lastTag(ctx, folder)
	if err != nil {
		return nil, err
	}
	if tag == "" {
		fmt.Fprintf(out, "%s: no tag before this commit, nothing to compare with\n", folder)
		return nil, nil
	}
	now, err := load(ctx, filepath.Join(c.checkout, folder))
	if err != nil {
		return nil, err
	}
	if err := c.checkOut(ctx, tag); err != nil {
		return nil, err
	}
	then, err := load(ctx, filepath.Join(c.scratch, folder))
	if err != nil {
		return nil, err
	}
	for _, change := range apidiff.ModuleChanges(then, now).Changes {
		line := now.Path + ": " + change.Message
		if change.Compatible {
			fmt.Fprintf(out, "since %s, compatible: %s\n", tag, line)
		} else {
			incompatible = append(incompatible, line)
		}
	}
	slices.Sort(incompatible)
	return incompatible, nil
}

// lastTag returns the module's newest tag before HEAD, or "".
func (c *comparison) lastTag(ctx context.Context, folder string) (string, error) {
	prefix := strings.TrimPrefix(path.Clean(folder)+"/", "./")
	tags, err := command.Output(ctx, c.checkout, nil, "git", "tag", "--merged", "HEAD", "--list", prefix+"v*")
	if err != nil {
		return "", err
	}
	last := ""
	for tag := range strings.FieldsSeq(tags) {
		version := strings.TrimPrefix(tag, prefix)
		if semver.IsValid(version) && semver.Compare(version, strings.TrimPrefix(last, prefix)) > 0 {
			last = tag
		}
	}
	return last, nil
}

// checkOut puts the files of a tag into the scratch folder.
func (c *comparison) checkOut(ctx context.Context, tag string) error {
	if !c.cloned {
		origin, err := filepath.Abs(c.checkout)
		if err != nil {
			return err
		}
		if _, err := command.Output(ctx, c.scratch, nil, "git", "clone", "--quiet", "--shared", "--no-checkout", origin, "."); err != nil {
			return err
		}
		c.cloned = true
	}
	_, err := command.Output(ctx, c.scratch, nil, "git", "checkout", "--quiet", "--detach", tag)
	return err
}

// load returns the API of a module: the packages that other modules can import.
func load(ctx context.Context, folder string) (*apidiff.Module, error) {
	loaded, err := packages.Load(&packages.Config{
		Context: ctx, Dir: folder, Env: append(os.Environ(), "GOWORK=off"),
		Mode: packages.LoadTypes | packages.NeedModule,
		// A package that is the same in both folders is compiled once.
		BuildFlags: []string{"-trimpath"},
	}, "./...")
	if err != nil {
		return nil, err
	}
	module := new(apidiff.Module)
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("%s: %w", folder, p.Errors[0])
		}
		module.Path = p.Module.Path
		if isPublic(p.Types) {
			module.Packages = append(module.Packages, p.Types)
		}
	}
	return module, nil
}

func isPublic(p *types.Package) bool {
	return p.Name() != "main" && !slices.Contains(strings.Split(p.Path(), "/"), "internal")
}
