package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
)

const (
	up = iota
	circle
	methods
	spread
	kinds
)

var meanings = [kinds]string{"arrows up", "files in a circle", "methods of one type", "files with methods of one type"}

// A wall is what walls.txt has of a package: the numbers, the order of its files from top to bottom, and pairs of words: an
// arrow up (a.go b.go), a file of a type's methods (Type a.go), a method of a type (Type Method).
type wall struct {
	counts [kinds]int
	order  []string
	pairs  map[[2]string]bool
}

const head = `# The walls between the files of each package. The comment of tools/walls/main.go defines the numbers. They only go down, and
# make walls lowers them. From the lines below the table make lint names what is new.

`

// formatWalls writes a line for each package, and below them the order of its files, its arrows up and its widest types.
func formatWalls(shapes []shape) []byte {
	var table, details bytes.Buffer
	for _, s := range shapes {
		c := s.counts
		fmt.Fprintf(&table, "%-32s up %2d  circle %2d  methods %2d  spread %2d\n", s.name, c[up], c[circle], c[methods], c[spread])
		fmt.Fprintf(&details, "\n%s order %s", s.name, strings.Join(s.order, " "))
		for _, a := range s.against(s.order) {
			fmt.Fprintf(&details, "\n%s arrow %s %s", s.name, a.from, a.to)
		}
		start := ""
		for _, m := range s.methods {
			if width := s.width(m.typ); width[methods] < s.counts[methods] && width[spread] < s.counts[spread] {
				continue
			}
			if next := fmt.Sprintf("%s type %s %s", s.name, m.typ, m.file); next != start {
				start = next
				fmt.Fprintf(&details, "\n%s", start)
			}
			fmt.Fprintf(&details, " %s", m.name)
		}
		fmt.Fprintf(&details, "\n")
	}
	return slices.Concat([]byte(head), table.Bytes(), details.Bytes())
}

// readWalls reads what formatWalls wrote. A file that is not there has nothing.
func readWalls(path string) (map[string]wall, error) {
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	walls := map[string]wall{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		w, known := walls[fields[0]]
		if !known {
			w.pairs = map[[2]string]bool{}
		}
		if !w.read(fields[1:]) {
			return nil, fmt.Errorf("%s: %q, want: PACKAGE up 0 circle 1 methods 0 spread 0", path, line)
		}
		walls[fields[0]] = w
	}
	return walls, nil
}

func (w *wall) read(fields []string) bool {
	switch {
	case len(fields) > 1 && fields[0] == "order":
		w.order = fields[1:]
	case len(fields) > 2 && (fields[0] == "arrow" || fields[0] == "type"):
		for _, word := range fields[2:] {
			w.pairs[[2]string{fields[1], word}] = true
		}
	default:
		c := &w.counts
		_, err := fmt.Sscanf(strings.Join(fields, " "), "up %d circle %d methods %d spread %d", &c[up], &c[circle], &c[methods], &c[spread])
		return err == nil
	}
	return true
}
