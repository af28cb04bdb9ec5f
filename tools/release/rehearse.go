package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	mod "golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/oncekey/oncekey/tools/internal/command"
)

// rehearsal is a release in a folder:
//
//	checkout/      a repository with the files of the checkout in one commit
//	origin.git/    where it pushes the tags
//	modules/       the module cache of commands that need published modules
//	proxy/         the module proxy
type rehearsal struct {
	folder  string
	version string
	modules []module
	proxies string // GOPROXY, with the proxy of the rehearsal first
}

// rehearse releases the files of the checkout as they are, committed or not, and prints the GOPROXY of who installs them.
func rehearse(ctx context.Context, out io.Writer, folder, version string, args []string) error {
	modules, err := published(version, args)
	if err != nil {
		return err
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return err
	}
	r := rehearsal{folder: folder, version: version, modules: modules}
	if r.proxies, err = proxies(ctx, r.in("proxy")); err != nil {
		return err
	}
	if err := r.copyCheckout(ctx, args[0]); err != nil {
		return err
	}
	for _, s := range plan(modules, version) {
		for _, line := range s.commands {
			if err := r.do(ctx, line); err != nil {
				return fmt.Errorf("%s %w", s.comment, err)
			}
		}
	}
	fmt.Fprintln(out, r.proxies)
	return nil
}

func (r rehearsal) in(name string) string { return filepath.Join(r.folder, name) }

// proxies returns a GOPROXY that asks the given folder, then the module cache, then the proxies in use.
func proxies(ctx context.Context, folder string) (string, error) {
	said, err := command.Output(ctx, ".", nil, "go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return "", err
	}
	cache, inUse, _ := strings.Cut(said, "\n")
	return fmt.Sprintf("file://%s,file://%s,%s", filepath.ToSlash(folder), filepath.ToSlash(filepath.Join(cache, "cache", "download")), inUse), nil
}

// copyCheckout makes the repository and its origin. It copies the files that a commit of all changes would have.
func (r rehearsal) copyCheckout(ctx context.Context, checkout string) error {
	list, err := command.Output(ctx, checkout, nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(list, "\x00") {
		if err := copyFile(filepath.Join(r.in("checkout"), name), filepath.Join(checkout, name)); name != "" && err != nil {
			return err
		}
	}
	for _, line := range []string{
		"git init --quiet --bare ../origin.git", "git init --quiet", "git remote add origin ../origin.git",
		"git config user.name rehearsal", "git config user.email rehearsal@example.org",
		"git config commit.gpgSign false", "git config tag.gpgSign false",
		"git add --all", "git commit --quiet --message 'Copy the checkout'",
	} {
		if err := r.do(ctx, line); err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies a file, unless it is deleted in the checkout.
func copyFile(to, from string) error {
	text, err := os.ReadFile(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

// do runs a command of the plan in the repository. A tag that it pushes is then in the proxy, as in a public one.
func (r rehearsal) do(ctx context.Context, line string) error {
	if _, err := command.Output(ctx, r.in("checkout"), r.environment(line), "sh", "-c", line); err != nil {
		return err
	}
	for _, m := range r.modules {
		if line == "git push origin "+m.tag(r.version) {
			return r.publish(ctx, m)
		}
	}
	return nil
}

// environment returns the variables that the commands need beside those of this process. Without a workspace a module finds the
// others in the proxy alone, and they must not get into the user's module cache: each rehearsal has its own v0.1.0.
func (r rehearsal) environment(line string) []string {
	if !strings.HasPrefix(line, "GOWORK=off ") {
		return nil
	}
	return []string{"GOPROXY=" + r.proxies, "GOSUMDB=off", "GOMODCACHE=" + r.in("modules"), "GOFLAGS=-modcacherw"}
}

// publish writes the files of a module proxy.
func (r rehearsal) publish(ctx context.Context, m module) error {
	tag := m.tag(r.version)
	escaped, err := mod.EscapePath(m.path)
	if err != nil {
		return err
	}
	folder := filepath.Join(r.in("proxy"), filepath.FromSlash(escaped), "@v")
	var archive bytes.Buffer
	inFolder := m.folder
	if inFolder == "." {
		inFolder = ""
	}
	if err := zip.CreateFromVCS(&archive, mod.Version{Path: m.path, Version: r.version}, r.in("checkout"), tag, inFolder); err != nil {
		return err
	}
	requirements, err := command.Output(ctx, r.in("checkout"), nil, "git", "show", tag+":./"+m.folder+"/go.mod")
	if err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{r.version, time.Unix(0, 0).UTC()})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"list": []byte(r.version + "\n"), r.version + ".info": info, r.version + ".mod": []byte(requirements), r.version + ".zip": archive.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
