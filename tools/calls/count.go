package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// returned stands in a trace for a return. All other numbers are calls of functions.
const returned = -1

// counts are those of a set of packages. main.go defines them.
type counts struct{ calls, literals, changes, files int }

// count counts the calls of functions whose package is in the set.
func count(trace []int, functions []function, in func(pack string) bool) counts {
	var (
		c     counts
		open  []string // the file of each open call; empty: not counted
		at    string
		files = map[string]bool{}
	)
	move := func(to string) {
		if at != "" && at != to {
			c.changes++
		}
		at = to
	}
	for _, number := range trace {
		if number == returned {
			left := open[len(open)-1]
			open = open[:len(open)-1]
			if caller := last(open); left != "" && caller != "" {
				move(caller)
			}
			continue
		}
		f := functions[number]
		file := ""
		switch {
		case !in(f.pack()):
		case f.isLiteral:
			c.literals++
		default:
			c.calls++
			file = f.file
			files[file] = true
			move(file)
		}
		open = append(open, file)
	}
	c.files = len(files)
	return c
}

// last is the file of the innermost open call that counts.
func last(open []string) string {
	for _, file := range slices.Backward(open) {
		if file != "" {
			return file
		}
	}
	return ""
}

func printCounts(out io.Writer, name string, trace []int, functions []function) {
	isOutside := func(pack string) bool { return pack == "core" || strings.HasPrefix(pack+"/", "adapters/") }
	fmt.Fprintf(out, "%-30s %7s %7s %7s %9s\n", name, "calls", "changes", "files", "literals")
	row := func(name string, in func(pack string) bool) {
		c := count(trace, functions, in)
		fmt.Fprintf(out, "%-30s %7d %7d %7d %9d\n", name, c.calls, c.changes, c.files, c.literals)
	}
	row("adapter and core", isOutside)
	row("with core/internal", func(pack string) bool { return isOutside(pack) || strings.HasPrefix(pack, "core/internal/") })
	row("all", func(string) bool { return true })
	packs := map[string]bool{}
	for _, number := range trace {
		if number != returned {
			packs[functions[number].pack()] = true
		}
	}
	for _, pack := range slices.Sorted(maps.Keys(packs)) {
		row("  "+pack, func(p string) bool { return p == pack })
	}
	fmt.Fprintln(out)
}

func printTrace(out io.Writer, trace []int, functions []function) {
	depth := 0
	for _, number := range trace {
		if number == returned {
			depth--
			continue
		}
		f := functions[number]
		fmt.Fprintf(out, "%s%s: %s\n", strings.Repeat("  ", depth), f.file, f.name)
		depth++
	}
	fmt.Fprintln(out)
}
