package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// engine is the source of package core, and of the packages of its module that it
// imports. A mutant changes one of their functions.
type engine struct {
	files     *token.FileSet
	functions []function
	packages  map[string][]*ast.File // by import path
	importer  types.Importer
}

// function is a function or method with its file.
type function struct {
	name   string // package, receiver's type, if any, and name: ledger.Ledger.claim
	path   string // import path of the package
	file   string
	source []byte
	base   token.Pos // of the file
	body   *ast.BlockStmt
}

// load parses the packages of the engine.
func load(ctx context.Context) (*engine, error) {
	list := exec.CommandContext(ctx, "go", "list", "-deps", "-export", "-json=ImportPath,Dir,GoFiles,Export,Module", "github.com/oncekey/oncekey/core")
	list.Stderr = os.Stderr
	output, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	e := &engine{files: token.NewFileSet(), packages: make(map[string][]*ast.File)}
	exports := make(map[string]string)
	for packages := json.NewDecoder(bytes.NewReader(output)); ; {
		var p struct {
			ImportPath, Dir, Export string
			GoFiles                 []string
			Module                  *struct{ Main bool }
		}
		if err := packages.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
		if p.Module == nil || !p.Module.Main {
			continue
		}
		for _, name := range p.GoFiles {
			name = filepath.Join(p.Dir, name)
			source, err := os.ReadFile(name)
			if err := cmp.Or(err, e.parse(p.ImportPath, name, source)); err != nil {
				return nil, err
			}
		}
	}
	e.importer = importer.ForCompiler(e.files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	return e, nil
}

// parse adds a file of the package path.
func (e *engine) parse(path, name string, source []byte) error {
	file, err := parser.ParseFile(e.files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	e.packages[path] = append(e.packages[path], file)
	for _, declared := range file.Decls {
		if f, ok := declared.(*ast.FuncDecl); ok && f.Body != nil {
			e.functions = append(e.functions, function{file.Name.Name + "." + nameOf(f), path, name, source, file.FileStart, f.Body})
			f.Body = nil // see compile
		}
	}
	return nil
}

func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver := strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*")
	receiver, _, _ = strings.Cut(receiver, "[")
	return receiver + "." + f.Name.Name
}

// isNamed reports whether name is the function's whole name, or ends it.
func (f *function) isNamed(name string) bool {
	return strings.HasSuffix(strings.ToLower("."+f.name), strings.ToLower("."+name))
}

// apply sets the file that the mutant changes, and its new source.
func (e *engine) apply(m *mutant) error {
	p, err := parsePattern(m.pattern)
	if err != nil {
		return err
	}
	var here, namesakes, elsewhere []function
	var found []match
	last := m.function[strings.LastIndex(m.function, ".")+1:]
	for _, f := range e.functions {
		switch matches := p.find(&f); {
		case len(matches) == 0:
		case f.isNamed(m.function):
			here, found = append(here, f), append(found, matches...)
		case f.isNamed(last):
			namesakes = append(namesakes, f)
		default:
			elsewhere = append(elsewhere, f)
		}
	}
	if len(found) == 1 {
		m.file, m.changed = here[0].file, found[0].replaced(m.replacement)
		if bytes.Equal(m.changed, here[0].source) {
			return errors.New("the replacement changes nothing")
		}
		return e.compile(&here[0], m.changed)
	}
	for _, other := range [][]function{namesakes, elsewhere} {
		if len(other) == 1 && len(here) == 0 {
			return fmt.Errorf("the pattern does not match in %s: moved to %s?", m.function, other[0].name)
		}
	}
	return fmt.Errorf("the pattern matches %d times in %s, want once", len(found), m.function)
}

// compile checks the types of a changed file. The other files of the package need no
// function bodies for that.
func (e *engine) compile(at *function, source []byte) error {
	changed, err := parser.ParseFile(e.files, at.file, source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	files := []*ast.File{changed}
	for _, file := range e.packages[at.path] {
		if e.files.File(file.FileStart).Name() != at.file {
			files = append(files, file)
		}
	}
	var wrong []error
	config := types.Config{Importer: e.importer, Error: func(err error) {
		var found types.Error // unused imports of the files without bodies are none
		if errors.As(err, &found) && e.files.File(found.Pos) == e.files.File(changed.FileStart) {
			wrong = append(wrong, err)
		}
	}}
	_, _ = config.Check(at.path, e.files, files, nil) // Error gets the errors
	return errors.Join(wrong...)
}
