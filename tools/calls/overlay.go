package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/oncekey/oncekey/tools/internal/command"
)

// The packages that exist in the overlay alone.
const (
	module        = "github.com/oncekey/oncekey/"
	ownFolder     = "internal/calls/"
	recordFolder  = ownFolder + "record/"
	programFolder = ownFolder + "program/"
)

// overlay is the file that go build -overlay reads.
type overlay struct {
	root, folder string
	Replace      map[string]string
}

func (o *overlay) program() string { return filepath.Join(o.folder, "program") }
func (o *overlay) path() string    { return filepath.Join(o.folder, "overlay.json") }

// put puts a file of the root into the overlay.
func (o *overlay) put(path string, source []byte) error {
	file := filepath.Join(o.folder, fmt.Sprintf("%d.go", len(o.Replace)))
	o.Replace[filepath.Join(o.root, path)] = file
	return os.WriteFile(file, source, 0o600)
}

func (o *overlay) write() error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return os.WriteFile(o.path(), text, 0o600)
}

// build builds the program, and returns the library's functions of which it is built.
func (o *overlay) build(ctx context.Context, program []byte) ([]function, error) {
	err := errors.Join(o.put(recordFolder+"record.go", recordSource), o.put(programFolder+"main.go", program), o.write())
	if err != nil {
		return nil, err
	}
	files, err := o.files(ctx)
	if err != nil {
		return nil, err
	}
	var functions []function
	for _, path := range files {
		source, err := os.ReadFile(filepath.Join(o.root, path))
		if err != nil {
			return nil, err
		}
		var text []byte
		text, functions, err = instrument(path, source, functions)
		if err == nil {
			err = o.put(path, text)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := o.write(); err != nil {
		return nil, err
	}
	_, err = o.golang(ctx, "build", "-o", o.program(), module+strings.TrimSuffix(programFolder, "/"))
	return functions, err
}

// files lists the library's files of which the program is built.
func (o *overlay) files(ctx context.Context) ([]string, error) {
	const format = `{{$package := .ImportPath}}{{range .GoFiles}}{{$package}}/{{.}}{{"\n"}}{{end}}`
	listed, err := o.golang(ctx, "list", "-deps", "-f", format, module+strings.TrimSuffix(programFolder, "/"))
	var files []string
	for line := range strings.Lines(listed) {
		path, isOurs := strings.CutPrefix(strings.TrimSpace(line), module)
		if isOurs && !strings.HasPrefix(path, ownFolder) {
			files = append(files, path)
		}
	}
	return files, err
}

// golang runs a go command over the overlay.
func (o *overlay) golang(ctx context.Context, subcommand string, args ...string) (string, error) {
	return command.Output(ctx, o.root, nil, "go", append([]string{subcommand, "-overlay", o.path()}, args...)...)
}
