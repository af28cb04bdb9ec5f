package main

import (
	"bytes"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Functions of each shape that could break the instrumented source.
const shapes = `// Package p has a package clause with more behind it.
package p /* p */ // and a comment

import "fmt"

//go:noinline
func plain(n int) (sum int) {
	for i := range func(yield func(int) bool) { _ = yield(n) } {
		sum += i
	}
	return sum
}

func empty() {}

func external() int

type list[T any] struct{ all []T }

func (l *list[T]) each(do func(T)) { for _, t := range l.all { do(t) } }

type pair[K comparable, V any] struct{}

func (pair[K, V]) none() {}

func of[T any](ts ...T) (l list[T]) { l.all = ts; return }

var atStart = func() string { return fmt.Sprint(1) }()

func init() {
	defer func() { _ = recover() }()
	of(1, 2).each(func(int) { empty() })
}
`

func TestInstrument(t *testing.T) {
	t.Parallel()
	before := []function{{file: "a/b.go", name: "other"}}
	text, all, err := instrument("p/q/p.go", []byte(shapes), before)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i, f := range all[1:] {
		names = append(names, f.name)
		if f.pack() != "p/q" || f.isLiteral != strings.Contains(f.name, ".func:") {
			t.Errorf("%+v", f)
		}
		if call := "callsrecord.Enter(" + string(rune('1'+i)) + ")();"; i < 9 && !bytes.Contains(text, []byte(call)) {
			t.Errorf("without %s", call)
		}
	}
	want := []string{"plain", "plain.func:8", "empty", "list.each", "pair.none", "of", "var.func:28", "init", "init.func:31", "init.func:32"}
	if !slices.Equal(names, want) {
		t.Errorf("functions %q, want %q", names, want)
	}
	if bytes.Count(text, []byte("\n")) != strings.Count(shapes, "\n") {
		t.Errorf("a line moved:\n%s", text)
	}
	if _, err := format.Source(text); err != nil {
		t.Errorf("%v:\n%s", err, text)
	}
	const without = "package p\n\nfunc external()\n"
	if text, all, err = instrument("p/p.go", []byte(without), nil); string(text) != without || len(all) > 0 || err != nil {
		t.Errorf("a file without a function: %q, %v, %v", text, all, err)
	}
	if _, _, err = instrument("p/p.go", []byte("func"), nil); err == nil {
		t.Error("a file that is not Go passes")
	}
}

// handle calls decide, by a literal of another file; decide calls the store, which calls decide's file again.
func TestCount(t *testing.T) {
	t.Parallel()
	functions := []function{
		{file: "adapters/chi/chi.go", name: "handle"},
		{file: "core/serve.go", name: "serve.func:3", isLiteral: true},
		{file: "core/decide.go", name: "decide"},
		{file: "core/memstore/store.go", name: "Store.Acquire"},
		{file: "core/decide.go", name: "callback"},
		{file: "core/internal/wire/key.go", name: "Key"},
	}
	const x = returned
	trace := []int{0, 1, 2, 5, x, 3, 4, x, x, x, x, 2, x, x}
	var out bytes.Buffer
	printCounts(&out, "request", trace, functions)
	printTrace(&out, trace, functions)
	want := `request                          calls changes   files  literals
adapter and core                     4       4       2         1
with core/internal                   5       6       3         1
all                                  6      10       4         1
  adapters/chi                       1       0       1         0
  core                               3       0       1         1
  core/internal/wire                 1       0       1         0
  core/memstore                      1       0       1         0

adapters/chi/chi.go: handle
  core/serve.go: serve.func:3
    core/decide.go: decide
      core/internal/wire/key.go: Key
      core/memstore/store.go: Store.Acquire
        core/decide.go: callback
  core/decide.go: decide

`
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
}

// The library of this repository compiles, and its trace has both ends of a request.
func TestLibrary(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), &out, []string{"-v", filepath.Join("..", "..")}); err != nil {
		t.Fatal(err)
	}
	first, replay, both := strings.Cut(out.String(), "\nreplay ")
	if !both || !strings.HasPrefix(first, "first request") {
		t.Fatalf("printed\n%s", out.String())
	}
	for _, call := range []string{"adapters/chi/", "core/memstore/"} {
		if !strings.Contains(first, call) || !strings.Contains(replay, call) {
			t.Errorf("no call of %s in\n%s", call, out.String())
		}
	}
	if strings.Count(first, "\n") <= strings.Count(replay, "\n") {
		t.Error("a first request has no more calls than its replay")
	}
}

// Calls before Begin, after Stop and of another goroutine are not recorded.
func TestRecord(t *testing.T) {
	t.Parallel()
	const program = `package main

import (
	"fmt"

	"p/record"
)

func call(n int) { defer record.Enter(n)() }

func outer() {
	defer record.Enter(7)()
	call(8)
	done := make(chan bool)
	go func() { call(9); close(done) }()
	<-done
}

func main() {
	call(1)
	record.Begin()
	outer()
	trace := record.Stop()
	call(2)
	record.Begin()
	fmt.Println(trace, record.Stop())
}
`
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "record"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"go.mod": "module p\n\ngo 1.26\n", "main.go": program, "record/record.go": string(recordSource)} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), "go", "run", ".")
	command.Dir = folder
	command.Env = append(os.Environ(), "GOWORK=off")
	if output, err := command.CombinedOutput(); err != nil || string(output) != "[7 8 -1 -1] []\n" {
		t.Errorf("printed %q, %v", output, err)
	}
}

func TestWrong(t *testing.T) {
	t.Parallel()
	if err := run(t.Context(), &bytes.Buffer{}, nil); err == nil || !strings.Contains(err.Error(), "want the argument ROOT") {
		t.Errorf("without a folder: %v", err)
	}
	if err := run(t.Context(), &bytes.Buffer{}, []string{t.TempDir()}); err == nil || !strings.Contains(err.Error(), "list -overlay") {
		t.Errorf("a folder without a library: %v", err)
	}
}
