// Command coverage prints the coverage of each package in a coverage profile, and fails if a package has less than the
// minimum. A statement counts as covered when any package's tests ran the statement.
//
//	go test -coverpkg ./... -coverprofile build/coverage.out ./...
//	coverage -minimum 90 -exclude '/internal/' build/coverage.out
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// tally counts statements.
type tally struct{ covered, all int }

func (t tally) percent() float64 { return 100 * float64(t.covered) / float64(t.all) }

// block is a run of statements. A profile lists each block once for each test binary.
type block struct {
	statements int
	covered    bool
}

func main() {
	minimum := flag.Float64("minimum", 0, "least percentage of each package's statements")
	exclude := flag.String("exclude", "^$", "packages that do not count, as a regular expression")
	flag.Parse()
	if err := run(os.Stdout, flag.Arg(0), *minimum, *exclude); err != nil {
		fmt.Fprintln(os.Stderr, "coverage:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, profile string, minimum float64, exclude string) error {
	excluded, err := regexp.Compile(exclude)
	if err != nil {
		return err
	}
	file, err := os.Open(profile)
	if err != nil {
		return err
	}
	defer file.Close()
	blocks, err := parse(file)
	if err != nil {
		return fmt.Errorf("%s: %w", profile, err)
	}
	return report(out, tallyPackages(blocks, excluded), minimum)
}

// parse reads lines like "example.org/a/b.go:10.2,12.3 4 1": a place, its statements, and how often they ran. The first
// line names the mode.
func parse(profile io.Reader) (map[string]block, error) {
	blocks := make(map[string]block)
	lines := bufio.NewScanner(profile)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "mode:") {
			continue
		}
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 {
			return nil, fmt.Errorf("not a line of a coverage profile: %q", lines.Text())
		}
		statements, err := strconv.Atoi(fields[1])
		if err != nil {
			return nil, err
		}
		place, ran := fields[0], fields[2] != "0"
		blocks[place] = block{statements, ran || blocks[place].covered}
	}
	return blocks, lines.Err()
}

func tallyPackages(blocks map[string]block, excluded *regexp.Regexp) map[string]tally {
	packages := make(map[string]tally)
	for place, block := range blocks {
		file, _, _ := strings.Cut(place, ":")
		name := path.Dir(file)
		if excluded.MatchString(name) {
			continue
		}
		count := packages[name]
		count.all += block.statements
		if block.covered {
			count.covered += block.statements
		}
		packages[name] = count
	}
	maps.DeleteFunc(packages, func(_ string, count tally) bool { return count.all == 0 })
	return packages
}

func report(out io.Writer, packages map[string]tally, minimum float64) error {
	if len(packages) == 0 {
		return errors.New("the profile has no statement that counts")
	}
	var total tally
	var below []string
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		count := packages[name]
		fmt.Fprintf(out, "%6.1f%%  %5d statements  %s\n", count.percent(), count.all, name)
		if count.percent() < minimum {
			below = append(below, name)
		}
		total.covered += count.covered
		total.all += count.all
	}
	fmt.Fprintf(out, "%6.1f%%  %5d statements  total\n", total.percent(), total.all)
	if len(below) > 0 {
		return fmt.Errorf("below %g%% of statements: %s", minimum, strings.Join(below, ", "))
	}
	return nil
}
