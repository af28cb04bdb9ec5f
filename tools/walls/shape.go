package main

import (
	"bytes"
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
	"slices"
	"strings"
)

const library = "github.com/oncekey/oncekey/"

// A shape is a package of today: its files, their arrows, the methods of its types, and what follows from them.
type shape struct {
	name    string // its import path below the library's
	files   []string
	arrows  map[arrow]map[string]string // for each identifier the place of its first use
	methods []method
	reached map[string]map[string]bool // the files to which one leads, once leads has been asked
	order   []string
	counts  [kinds]int
}

type method struct{ typ, file, name string }

// A listed is a package as go list prints it.
type listed struct {
	ImportPath, Name, Dir, Export string
	GoFiles, Imports              []string
	DepOnly                       bool
}

// load measures the packages of the modules that users link, of two files or more. What they import comes from the compiler's
// export data.
func load(root string, modules []string) ([]shape, error) {
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Name,Dir,Export,GoFiles,Imports,DepOnly"}
	for _, module := range modules {
		args = append(args, "./"+module+"/...")
	}
	command := exec.CommandContext(context.Background(), "go", args...)
	command.Dir, command.Stderr = root, os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports := map[string]string{}
	files := token.NewFileSet()
	imports := importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	var shapes []shape
	// A package comes after all that it imports.
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
		if p.DepOnly || p.Name == "main" || len(p.GoFiles) < 2 || slices.Contains(p.Imports, "testing") {
			continue
		}
		s, err := measure(p, files, imports)
		if err != nil {
			return nil, err
		}
		shapes = append(shapes, s)
	}
	slices.SortFunc(shapes, func(a, b shape) int { return strings.Compare(a.name, b.name) })
	return shapes, nil
}

// measure checks the types of a package, and finds its arrows and methods.
func measure(p listed, files *token.FileSet, imports types.Importer) (shape, error) {
	s := shape{
		name: strings.TrimPrefix(p.ImportPath, library), files: p.GoFiles,
		arrows: map[arrow]map[string]string{}, reached: map[string]map[string]bool{},
	}
	var trees []*ast.File
	for _, file := range p.GoFiles {
		tree, err := parser.ParseFile(files, filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
		if err != nil {
			return shape{}, err
		}
		trees = append(trees, tree)
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	checked, err := (&types.Config{Importer: imports}).Check(p.ImportPath, files, trees, &info)
	if err != nil {
		return shape{}, err
	}
	for _, tree := range trees {
		for node := range ast.Preorder(tree) {
			if id, ok := node.(*ast.Ident); ok && info.Uses[id] != nil && info.Uses[id].Pkg() == checked {
				s.draw(files.Position(id.Pos()), files.Position(info.Uses[id].Pos()), id.Name)
			}
		}
	}
	s.methodsIn(checked.Scope(), files)
	return s, nil
}

// draw adds an arrow. What a function declares for itself is in the file of its uses, and so never makes one.
func (s *shape) draw(use, declaration token.Position, name string) {
	a := arrow{filepath.Base(use.Filename), filepath.Base(declaration.Filename)}
	if a.from == a.to || !declaration.IsValid() {
		return
	}
	if s.arrows[a] == nil {
		s.arrows[a] = map[string]string{}
	}
	if s.arrows[a][name] == "" {
		s.arrows[a][name] = fmt.Sprintf("%s/%s:%d", s.name, a.from, use.Line)
	}
}

// methodsIn lists the methods of the package's types: type by type, and file by file.
func (s *shape) methodsIn(scope *types.Scope, files *token.FileSet) {
	for _, name := range scope.Names() {
		typ, isType := scope.Lookup(name).(*types.TypeName)
		if !isType {
			continue
		}
		if named, ok := typ.Type().(*types.Named); ok {
			for m := range named.Methods() {
				s.methods = append(s.methods, method{name, filepath.Base(files.Position(m.Pos()).Filename), m.Name()})
			}
		}
	}
}

// news lists what has raised a number above its wall: a line for each thing that walls.txt does not have.
func (s *shape) news(kind int, w wall) []string {
	var added, all []string
	add := func(pair [2]string, place, text string) {
		all = append(all, "\t"+place+": "+text)
		if !w.pairs[pair] {
			added = append(added, all[len(all)-1])
		}
	}
	if kind == methods || kind == spread {
		s.wideTypes(kind, w.counts[kind], add)
	} else {
		s.risingArrows(w.order, add)
	}
	if added == nil {
		return all // the number was lowered by hand
	}
	return added
}

// risingArrows adds the arrows of circles that run against the wall's order. In it the files of a circle stand together: so an
// arrow that widens a circle runs against it too.
func (s *shape) risingArrows(order []string, add func(pair [2]string, place, text string)) {
	for _, a := range s.against(s.place(order)) {
		if !s.leads(a.to, a.from) {
			continue
		}
		for name, place := range s.arrows[a] {
			add([2]string{a.from, a.to}, place, a.from+" -> "+a.to+": "+name)
		}
	}
}

// wideTypes adds the methods of types that have more than the limit of methods, or of files.
func (s *shape) wideTypes(kind, limit int, add func(pair [2]string, place, text string)) {
	for _, m := range s.methods {
		if s.width(m.typ)[kind] > limit {
			add([2]string{m.typ, map[int]string{methods: m.name, spread: m.file}[kind]}, s.name+"/"+m.file, m.typ+"."+m.name)
		}
	}
}
