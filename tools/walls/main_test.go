package main

import (
	"bytes"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/tools/internal/toolstest"
)

// The shop has an order, cart.go above item.go above price.go, and two methods of its widest type in one file.
var shop = map[string]string{
	"go.mod":         "module github.com/oncekey/oncekey\n\ngo 1.26.0\n",
	"shop/cart.go":   "package shop\n\ntype Cart struct{ items []item }\n\nfunc (c *Cart) Sum() price { return c.items[0].price() }\n\nfunc (c *Cart) Len() int { return len(c.items) }\n",
	"shop/item.go":   "package shop\n\ntype item struct{ cents price }\n\nfunc (i item) price() price { return i.cents }\n",
	"shop/price.go":  "package shop\n\nimport \"fmt\"\n\ntype price int\n\nfunc (p price) text() string { return fmt.Sprint(int(p)) }\n",
	"shop/a_test.go": "package shop\n\nfunc (p price) tested() (c Cart) { return c }\n",
	"one/one.go":     "package one\n",
	"kit/kit.go":     "package kit\n\nimport \"testing\"\n\nfunc Test(*testing.T) { help() }\n",
	"kit/help.go":    "package kit\n\nfunc help() {}\n",
}

const shopsWall = "shop                             up  0  circle  1  methods  2  spread  1\n"

// walls runs the command over the shop with the changed files, and a walls.txt. It returns its output and error, and
// walls.txt.
func walls(t *testing.T, held string, changed map[string]string, flags ...string) (out, failure, written string) {
	t.Helper()
	root := t.TempDir()
	for _, files := range []map[string]string{{"tools/walls/walls.txt": held}, shop, changed} {
		toolstest.Write(t, root, files)
	}
	var printed bytes.Buffer
	if err := run(&printed, append(flags, root, ".")); err != nil {
		failure = err.Error()
	}
	text, err := os.ReadFile(filepath.Join(root, "tools", "walls", "walls.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return printed.String(), failure, string(text)
}

// shopsWalls is what -write writes for the shop.
func shopsWalls(t *testing.T) string {
	t.Helper()
	_, failure, written := walls(t, "", nil, "-write")
	if failure != "" {
		t.Fatal(failure)
	}
	return written
}

func TestWrite(t *testing.T) {
	t.Parallel()
	want := head + shopsWall + "\nshop order cart.go item.go price.go\nshop type Cart cart.go Sum Len\n" +
		"shop type item item.go price\nshop type price price.go text\n"
	if written := shopsWalls(t); written != want {
		t.Errorf("wrote\n%s\nwant\n%s", written, want)
	}
	if out, failure, _ := walls(t, want, nil); out != "" || failure != "" {
		t.Errorf("the same tree fails: %s%s", out, failure)
	}
}

func TestGrown(t *testing.T) {
	t.Parallel()
	held := shopsWalls(t)
	for name, c := range map[string]struct {
		changed map[string]string
		want    string
	}{
		"an arrow up between two files": {
			map[string]string{"shop/price.go": "package shop\n\ntype price int\n\nfunc (p price) text() item { return item{p} }\n"},
			"shop: 1 arrows up, and walls.txt has 0\nshop: 2 files in a circle, and walls.txt has 1\n" +
				"\tshop/price.go:5: price.go -> item.go: item\n",
		},
		"a type with a method in a new file": {
			map[string]string{"shop/cart_print.go": "package shop\n\nfunc (Cart) Print() {}\n"},
			"shop: 3 methods of one type, and walls.txt has 2\nshop: 2 files with methods of one type, and walls.txt has 1\n" +
				"\tshop/cart_print.go: Cart.Print\n",
		},
		"another type with more methods": {
			map[string]string{"shop/item.go": shop["shop/item.go"] + "\nfunc (i *item) a() {}\n\nfunc (i item) b() {}\n"},
			"shop: 3 methods of one type, and walls.txt has 2\n\tshop/item.go: item.a\n\tshop/item.go: item.b\n",
		},
	} {
		for _, flags := range [][]string{nil, {"-write"}} {
			out, failure, written := walls(t, held, c.changed, flags...)
			if out != c.want || failure == "" {
				t.Errorf("%s %v: printed\n%s and failed with %q, want\n%s", name, flags, out, failure, c.want)
			}
			if written != held {
				t.Errorf("%s %v: walls.txt changed to\n%s", name, flags, written)
			}
		}
	}
}

// ring is a package of two files that refer to each other, above a third.
func ring(top, middle, low string) map[string]string {
	return map[string]string{
		"ring/top.go":    "package ring\n\nfunc top() { middle() }\n" + top,
		"ring/middle.go": "package ring\n\nfunc middle() { top(); low() }\n" + middle,
		"ring/low.go":    "package ring\n\nfunc low() {}\n" + low,
	}
}

// A new arrow is named where it widens a circle, or runs up within one, and the old arrows of the circle are not.
func TestCircle(t *testing.T) {
	t.Parallel()
	_, failure, held := walls(t, "", ring("", "", ""), "-write")
	if failure != "" || !strings.Contains(held, "ring                             up  1  circle  2  methods  0  spread  0\n") {
		t.Fatalf("%s: a circle of two files:\n%s", failure, held)
	}
	below := "\tring/low.go:5: low.go -> middle.go: middle\n"
	for name, c := range map[string]struct {
		changed map[string]string
		want    string
	}{
		"another use along an old arrow":  {ring("\nfunc other() { middle() }\n", "", ""), ""},
		"an arrow down":                   {ring("\nfunc other() { low() }\n", "", ""), ""},
		"a new file below":                {with(ring("", "\nvar _ = lowest\n", ""), "ring/lowest.go", "package ring\n\nvar lowest int\n"), ""},
		"a new file above":                {with(ring("", "", ""), "ring/z.go", "package ring\n\nfunc z() { top(); low() }\n"), ""},
		"an arrow up to the circle's end": {ring("", "", "\nfunc other() { middle() }\n"), "ring: 2 arrows up, and walls.txt has 1\nring: 3 files in a circle, and walls.txt has 2\n" + below},
		"an arrow up, for which another may count": {
			ring("", "", "\nfunc other() { top() }\n"), "ring: 3 files in a circle, and walls.txt has 2\n\tring/low.go:5: low.go -> top.go: top\n",
		},
	} {
		out, failure, _ := walls(t, held, c.changed)
		if out != c.want || (failure != "") != (c.want != "") {
			t.Errorf("%s: printed\n%s and failed with %q, want\n%s", name, out, failure, c.want)
		}
	}
}

func with(files map[string]string, name, text string) map[string]string {
	files[name] = text
	return files
}

func TestFallen(t *testing.T) {
	t.Parallel()
	held := strings.Replace(shopsWalls(t), shopsWall, "shop up 1 circle 2 methods 9 spread 1\ngone up 0 circle 1 methods 0 spread 0\n", 1)
	out, failure, written := walls(t, held, ring("", "", ""))
	want := "ring: walls.txt does not have this package\nshop: 0 arrows up, and walls.txt has 1: lower the number\n" +
		"shop: 1 files in a circle, and walls.txt has 2: lower the number\n" +
		"shop: 2 methods of one type, and walls.txt has 9: lower the number\ngone: walls.txt has this package, which is gone or has one file\n"
	if out != want || !strings.Contains(failure, "make walls") || written != held {
		t.Errorf("printed\n%s and failed with %q, want\n%s", out, failure, want)
	}
	out, failure, written = walls(t, held, ring("", "", ""), "-write")
	if failure != "" || !strings.Contains(written, shopsWall) || !strings.Contains(written, "ring") || strings.Contains(written, "gone") {
		t.Errorf("%s: make walls wrote\n%s", failure, written)
	}
	if want := "ring                                 3      3    1       2        0       0\n"; !strings.Contains(out, want) {
		t.Errorf("printed\n%s, without\n%s", out, want)
	}
}

// Who lowers a number by hand learns all that stands behind it.
func TestLoweredByHand(t *testing.T) {
	t.Parallel()
	held := strings.Replace(shopsWalls(t), "methods  2", "methods  1", 1)
	want := "shop: 2 methods of one type, and walls.txt has 1\n\tshop/cart.go: Cart.Len\n\tshop/cart.go: Cart.Sum\n"
	if out, failure, _ := walls(t, held, nil); out != want || failure == "" {
		t.Errorf("printed\n%s and failed with %q, want\n%s", out, failure, want)
	}
}

func TestWrong(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"shop", "shop up 1", "shop up x circle 1 methods 1 spread 1", "shop order", "shop arrow a.go"} {
		if _, failure, _ := walls(t, line, nil); !strings.Contains(failure, "want: PACKAGE up 0") {
			t.Errorf("%q: failed with %q", line, failure)
		}
	}
	if _, failure, _ := walls(t, "", map[string]string{"shop/item.go": "package shop\n"}); failure == "" {
		t.Error("a package that does not compile passes")
	}
	if err := run(&bytes.Buffer{}, []string{"."}); err == nil {
		t.Error("no module passes")
	}
}

// No order of a few files has fewer arrows up than the one that is found, which is found again from itself.
func TestFewest(t *testing.T) {
	t.Parallel()
	files := []string{"a", "b", "c", "d", "e", "f"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		s := shape{files: files, arrows: map[arrow]map[string]string{}, reached: map[string]map[string]bool{}}
		for range 14 {
			if a := (arrow{files[random.IntN(6)], files[random.IntN(6)]}); a.from != a.to {
				s.arrows[a] = map[string]string{}
			}
		}
		s.count(wall{})
		for order := range orders(files) {
			if ups := len(s.against(order)); ups < s.counts[up] {
				t.Fatalf("%v: %d arrows run up in %v, and %d in %v", s.arrows, s.counts[up], s.order, ups, order)
			}
		}
		found := s.order
		s.order = nil
		if s.count(wall{order: found}); !slices.Equal(s.order, found) {
			t.Fatalf("%v: %v, and from it on %v", s.arrows, found, s.order)
		}
	}
}

func orders(files []string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		if len(files) == 0 {
			yield(nil)
			return
		}
		for i, first := range files {
			for rest := range orders(slices.Delete(slices.Clone(files), i, i+1)) {
				if !yield(append([]string{first}, rest...)) {
					return
				}
			}
		}
	}
}
