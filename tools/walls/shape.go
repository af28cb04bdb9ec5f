package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
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

// load measures the packages of the modules that users link, of two files or more.
func load(root string, modules []string) ([]shape, error) {
	patterns := make([]string, len(modules))
	for i, module := range modules {
		patterns[i] = "./" + module + "/..."
	}
	loaded, err := packages.Load(&packages.Config{Dir: root, Mode: packages.LoadSyntax}, patterns...)
	if err != nil {
		return nil, err
	}
	var shapes []shape
	for _, p := range loaded {
		switch {
		case len(p.Errors) > 0:
			return nil, p.Errors[0]
		case p.Name != "main" && len(p.GoFiles) > 1 && p.Imports["testing"] == nil:
			shapes = append(shapes, measure(p))
		}
	}
	slices.SortFunc(shapes, func(a, b shape) int { return strings.Compare(a.name, b.name) })
	return shapes, nil
}

// measure finds the arrows and the methods of a package.
func measure(p *packages.Package) shape {
	s := shape{
		name: strings.TrimPrefix(p.PkgPath, library), arrows: map[arrow]map[string]string{}, reached: map[string]map[string]bool{},
	}
	for _, file := range p.GoFiles {
		s.files = append(s.files, filepath.Base(file))
	}
	for _, tree := range p.Syntax {
		for node := range ast.Preorder(tree) {
			if id, ok := node.(*ast.Ident); ok && p.TypesInfo.Uses[id] != nil && p.TypesInfo.Uses[id].Pkg() == p.Types {
				s.draw(p.Fset.Position(id.Pos()), p.Fset.Position(p.TypesInfo.Uses[id].Pos()), id.Name)
			}
		}
	}
	s.methodsIn(p.Types.Scope(), p.Fset)
	return s
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
