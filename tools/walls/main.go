// Command walls counts how the files of each package refer to each other, and fails where that has become worse:
//
//	walls [-write] ROOT MODULE...
//
// It measures the packages of the modules that users link and that have two files or more: no programs, and no package that
// imports testing. The file tools/walls/walls.txt has four numbers for each. They count files without tests, as go list names
// them for this system, and references as the type checker finds them.
//
//   - An arrow runs from file a to file b when a uses an identifier that b declares: a function, type, variable or constant of
//     the package, a method, or a field. Many uses are one arrow.
//   - circle: the files of the largest circle. In a circle each file leads to each other one along arrows. It is 1 in a package
//     where no two files do so.
//   - up: of all orders of the files, take one in which fewest arrows run from a file up to one before it. up is how many do:
//     the fewest arrows without which no circle is left. All orders are compared, so the number depends on the arrows alone. An
//     arrow that goes never raises it, and a new one raises it by one at most. A circle of more than 26 files has too many
//     orders: there the order of walls.txt counts.
//   - methods: the methods of the type that has most.
//   - spread: the files that hold the methods of one type, of the type for which they are most.
//
// Below the numbers walls.txt has such an order from top to bottom, its arrows up, and the methods of the widest types. It need
// not have each new file and name.
//
// A number only goes down. A larger one is an error, which names what walls.txt does not have: arrows against its order, or
// methods. A smaller one is an error until -write (make walls) has lowered it. -write raises nothing: a number goes up by
// hand, where a reviewer sees it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "walls:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, args []string) error {
	flags := flag.NewFlagSet("walls", flag.ContinueOnError)
	write := flags.Bool("write", false, "lower the numbers to those of today, and print them")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() < 2 {
		return errors.New("want the arguments ROOT MODULE")
	}
	path := filepath.Join(flags.Arg(0), "tools", "walls", "walls.txt")
	walls, err := readWalls(path)
	if err != nil {
		return err
	}
	shapes, err := load(flags.Arg(0), flags.Args()[1:])
	if err != nil {
		return err
	}
	for i := range shapes {
		shapes[i].count(walls[shapes[i].name])
	}
	larger, smaller := compare(walls, shapes)
	switch {
	case len(larger) > 0:
		fmt.Fprintln(out, strings.Join(larger, "\n"))
		return errors.New("a number only goes down: remove what is new, or raise the number in walls.txt and say why in the commit")
	case *write:
		printTable(out, shapes)
		return os.WriteFile(path, formatWalls(shapes), 0o644)
	case len(smaller) > 0:
		fmt.Fprintln(out, strings.Join(smaller, "\n"))
		return errors.New("walls.txt is not up to date: make walls writes it")
	}
	return nil
}

// compare lists the numbers that are larger than their wall, with what is new; and those that are smaller, with the packages
// that only one side has.
func compare(walls map[string]wall, shapes []shape) (larger, smaller []string) {
	gone := maps.Clone(walls)
	for _, s := range shapes {
		delete(gone, s.name)
		w, known := walls[s.name]
		if !known {
			smaller = append(smaller, s.name+": walls.txt does not have this package")
			continue
		}
		var causes []string
		for kind, count := range s.counts {
			line := fmt.Sprintf("%s: %d %s, and walls.txt has %d", s.name, count, meanings[kind], w.counts[kind])
			if count > w.counts[kind] {
				larger = append(larger, line)
				causes = append(causes, s.news(kind, w)...)
			} else if count < w.counts[kind] {
				smaller = append(smaller, line+": lower the number")
			}
		}
		slices.Sort(causes)
		larger = append(larger, slices.Compact(causes)...)
	}
	for _, name := range slices.Sorted(maps.Keys(gone)) {
		smaller = append(smaller, name+": walls.txt has this package, which is gone or has one file")
	}
	return larger, smaller
}

func printTable(out io.Writer, shapes []shape) {
	fmt.Fprintf(out, "%-32s files arrows   up  circle  methods  spread\n", "package")
	for _, s := range shapes {
		c := s.counts
		fmt.Fprintf(out, "%-32s %5d %6d %4d  %6d  %7d  %6d\n", s.name, len(s.files), len(s.arrows), c[up], c[circle], c[methods], c[spread])
	}
}
