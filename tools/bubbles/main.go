// Command bubbles finds values that leave a bubble of testing/synctest, and fails if there is one:
//
//	bubbles DIR
//
// The clock of a bubble stands at a date of its own. A record that was stored by that clock and is read by the real one has
// expired on some later day, and the test fails from then on, everywhere. A value that carries no time may leave the bubble
// where the line, or the line above it, has a comment with the reason: // leaves the bubble: a text, without a time.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]...); err != nil {
		fmt.Fprintln(os.Stderr, "bubbles:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, folders ...string) error {
	found := 0
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if !strings.HasSuffix(path, ".go") || entry.IsDir() {
				return nil
			}
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			leaks, err := leaksOf(path, source)
			for _, leak := range leaks {
				fmt.Fprintln(out, leak)
			}
			found += len(leaks)
			return err
		})
		if err != nil {
			return err
		}
	}
	if found > 0 {
		return errors.New("values leave a bubble: use them inside, or say in a comment why they carry no time: // leaves the bubble: a text")
	}
	return nil
}

// leaksOf lists the assignments inside of bubbles to variables that were declared outside of them.
func leaksOf(path string, source []byte) ([]string, error) {
	if !bytes.Contains(source, []byte("synctest.Test(")) {
		return nil, nil
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	excused := excusedLines(files, file)
	var leaks []string
	for node := range ast.Preorder(file) {
		bubble := bubbleOf(node)
		if bubble == nil {
			continue
		}
		for _, name := range assignedIn(bubble) {
			if !declaredIn(bubble, name) && !excused[files.Position(name.Pos()).Line] {
				leaks = append(leaks, fmt.Sprintf("%s: %s leaves the bubble", files.Position(name.Pos()), name.Name))
			}
		}
	}
	return leaks, nil
}

// excusedLines are the lines of comments that give a reason, and the lines below them.
func excusedLines(files *token.FileSet, file *ast.File) map[int]bool {
	excused := map[int]bool{}
	for _, group := range file.Comments {
		for _, comment := range group.List {
			if reason, ok := strings.CutPrefix(comment.Text, "// leaves the bubble:"); ok && strings.TrimSpace(reason) != "" {
				line := files.Position(comment.Pos()).Line
				excused[line], excused[line+1] = true, true
			}
		}
	}
	return excused
}

// bubbleOf returns the function of a call of synctest.Test, or nil.
func bubbleOf(node ast.Node) *ast.FuncLit {
	call, ok := node.(*ast.CallExpr)
	if !ok || len(call.Args) != 2 {
		return nil
	}
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || function.Sel.Name != "Test" {
		return nil
	}
	if name, ok := function.X.(*ast.Ident); !ok || name.Name != "synctest" {
		return nil
	}
	bubble, _ := call.Args[1].(*ast.FuncLit)
	return bubble
}

// assignedIn returns the first name of each place that the function assigns to.
func assignedIn(bubble *ast.FuncLit) (names []*ast.Ident) {
	for node := range ast.Preorder(bubble.Body) {
		assignment, ok := node.(*ast.AssignStmt)
		if !ok || assignment.Tok == token.DEFINE {
			continue
		}
		for _, place := range assignment.Lhs {
			if name := rootOf(place); name != nil && name.Name != "_" {
				names = append(names, name)
			}
		}
	}
	return names
}

// rootOf is the variable that an assignment to the place changes.
func rootOf(place ast.Expr) *ast.Ident {
	for {
		switch e := place.(type) {
		case *ast.Ident:
			return e
		case *ast.SelectorExpr:
			place = e.X
		case *ast.IndexExpr:
			place = e.X
		case *ast.StarExpr:
			place = e.X
		case *ast.ParenExpr:
			place = e.X
		default:
			return nil
		}
	}
}

func declaredIn(bubble *ast.FuncLit, name *ast.Ident) bool {
	return name.Obj != nil && bubble.Pos() <= name.Obj.Pos() && name.Obj.Pos() < bubble.End()
}
