package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
)

// expression has the names that an expression of PromQL uses. Prometheus' own parser would be the largest dependency of the
// module: promtool checks the form of each expression, and here it is taken for granted.
type expression struct {
	selectors []selector
	labels    []string // in by, without, on, ignoring, group_left, group_right
	variables []string // Grafana's
}

type selector struct {
	metric   string
	matchers []matcher
}

type matcher struct{ label, operator, value string }

var (
	variable    = regexp.MustCompile(`\$(\w+)|\$\{(\w+)\}`)
	unnamed     = regexp.MustCompile(`#.*|\[[^\]]*\]|\$__\w+`) // comments, ranges and durations
	grouping    = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	reference   = regexp.MustCompile(`\b([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\s*(\(|\{[^}]*\}))?`)
	matcherText = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*["']([^"']*)["']`)
	operators   = strings.Fields("and or unless bool offset group_left group_right inf nan")
)

// parse reads a valid expression.
func parse(text string) (found expression) {
	for _, name := range variable.FindAllStringSubmatch(text, -1) {
		found.variables = append(found.variables, name[1]+name[2])
	}
	text = unnamed.ReplaceAllString(text, "")
	for _, list := range grouping.FindAllStringSubmatch(text, -1) {
		found.labels = append(found.labels, strings.FieldsFunc(list[1], func(r rune) bool { return r == ',' || r == ' ' })...)
	}
	for _, name := range reference.FindAllStringSubmatch(grouping.ReplaceAllString(text, ""), -1) {
		if name[2] == "(" || slices.Contains(operators, name[1]) {
			continue // a function
		}
		s := selector{metric: name[1]}
		for _, m := range matcherText.FindAllStringSubmatch(name[2], -1) {
			s.matchers = append(s.matchers, matcher{m[1], m[2], m[3]})
		}
		found.selectors = append(found.selectors, s)
	}
	return found
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`up`:                       "up",
		`rate(a_total[5m]) > 0.1`:  "a_total",
		`a unless a offset 15m`:    "a a",
		`sum by (x, y) (b{})`:      "b by x y",
		`sum(b) without (x)`:       "b by x",
		`a / on (x) group_left b`:  "a b by x",
		`a / on(x) group_left(y)b`: "a b by x y",
		`histogram_quantile(0.99, sum by (le) (rate(h_bucket{r=~"$route", q!='1'}[$__rate_interval])))`: "h_bucket{r=~$route}{q!=1} by le $route $__rate_interval",
		"a # b\n+ c": "a c",
		`a > bool 1`: "a",
	} {
		found := parse(text)
		var said []string
		for _, s := range found.selectors {
			name := s.metric
			for _, m := range s.matchers {
				name += "{" + m.label + m.operator + m.value + "}"
			}
			said = append(said, name)
		}
		if len(found.labels) > 0 {
			said = append(said, "by")
		}
		said = append(said, found.labels...)
		for _, name := range found.variables {
			said = append(said, "$"+name)
		}
		testkit.Equal(t, strings.Join(said, " "), want, "%s", text)
	}
}
