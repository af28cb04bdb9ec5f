// Command coverage prints the coverage of each package in a coverage profile, and fails if a package has less than the
// minimum. A statement counts as covered when any package's tests ran the statement.
//
//	go test -coverpkg ./... -coverprofile build/coverage.out ./...
//	coverage -minimum 90 -exclude '/internal/' build/coverage.out
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/cover"
)

// tally counts statements.
type tally struct{ covered, all int }

func (t tally) percent() float64 { return 100 * float64(t.covered) / float64(t.all) }

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
	profiles, err := cover.ParseProfiles(profile)
	if err != nil {
		return fmt.Errorf("%s: %w", profile, err)
	}
	return report(out, tallyPackages(profiles, excluded), minimum)
}

func tallyPackages(profiles []*cover.Profile, excluded *regexp.Regexp) map[string]tally {
	packages := make(map[string]tally)
	for _, profile := range profiles {
		name := path.Dir(profile.FileName)
		if excluded.MatchString(name) {
			continue
		}
		count := packages[name]
		for _, block := range profile.Blocks {
			count.all += block.NumStmt
			if block.Count > 0 {
				count.covered += block.NumStmt
			}
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
