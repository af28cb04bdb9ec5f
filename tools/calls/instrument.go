package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
)

// function is a declared function of the library, or a function literal within one.
type function struct {
	file, name string
	isLiteral  bool
}

func (f function) pack() string { return path.Dir(f.file) }

// insertion is text for a place in a file.
type insertion struct {
	at   int
	text string
}

// instrument returns the file with a deferred call at the begin of each function, and all with these functions: the number of a
// function is its place there. Lines keep their numbers.
func instrument(file string, source []byte, all []function) ([]byte, []function, error) {
	places := token.NewFileSet()
	tree, err := parser.ParseFile(places, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	place := func(pos token.Pos) token.Position { return places.PositionFor(pos, false) }
	inserted := []insertion{{place(tree.Name.End()).Offset, fmt.Sprintf("; import callsrecord %q", module+strings.TrimSuffix(recordFolder, "/"))}}
	before := len(all)
	for _, declaration := range tree.Decls {
		around := "var"
		ast.Inspect(declaration, func(node ast.Node) bool {
			f := function{file: file}
			var body *ast.BlockStmt
			switch node := node.(type) {
			case *ast.FuncDecl:
				around = nameOf(node)
				f.name, body = around, node.Body
			case *ast.FuncLit:
				f.name, f.isLiteral, body = fmt.Sprintf("%s.func:%d", around, place(node.Pos()).Line), true, node.Body
			}
			if body != nil {
				inserted = append(inserted, insertion{place(body.Lbrace).Offset + 1, fmt.Sprintf(" defer callsrecord.Enter(%d)();", len(all))})
				all = append(all, f)
			}
			return true
		})
	}
	if len(all) == before {
		return source, all, nil // the import would be unused
	}
	return insert(source, inserted), all, nil
}

func insert(source []byte, inserted []insertion) []byte {
	slices.SortFunc(inserted, func(a, b insertion) int { return cmp.Compare(a.at, b.at) })
	var text []byte
	from := 0
	for _, i := range inserted {
		text = append(append(text, source[from:i.at]...), i.text...)
		from = i.at
	}
	return append(text, source[from:]...)
}

// nameOf is name for a function, and Type.name for a method.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	for {
		switch t := receiver.(type) {
		case *ast.StarExpr:
			receiver = t.X
		case *ast.ParenExpr:
			receiver = t.X
		case *ast.IndexExpr:
			receiver = t.X
		case *ast.IndexListExpr:
			receiver = t.X
		case *ast.Ident:
			return t.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}
