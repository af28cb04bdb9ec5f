package testkit

import (
	"regexp"
	"strings"
)

// Shown returns the pattern of an output as the documentation shows it. Dots stand for lines, or
// for the rest of a line, that the page leaves out.
func Shown(text string) *regexp.Regexp {
	dots := regexp.QuoteMeta("...")
	pattern := regexp.QuoteMeta(strings.TrimSpace(text)) + "\n"
	pattern = strings.ReplaceAll(pattern, "\n"+dots+"\n", "\n(?:.*\n)*?")
	pattern = strings.ReplaceAll(strings.TrimSuffix(pattern, "\n"), dots, ".*")
	return regexp.MustCompile(`\A\s*` + pattern + `\s*\z`)
}
