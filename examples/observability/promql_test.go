package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Prometheus' own parser would be the largest dependency of the module. This small parser
// is enough to find the names in an expression: it knows names, selectors, ranges and lists
// of labels, and refuses the rest.

// expression has the names that an expression uses.
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
	token = regexp.MustCompile(`^(?:\s+|#.*)|^(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|^\$(?:\w+|\{\w+\})|^[a-zA-Z_:][a-zA-Z0-9_:]*` +
		`|^[0-9.][0-9a-zA-Z.]*|^(?:=~|!~|!=|==|>=|<=|[-+*/%^=<>(){}\[\],:@])`)
	variable  = regexp.MustCompile(`\$(\w+)|\$\{(\w+)\}`)
	isName    = regexp.MustCompile(`^[a-zA-Z_:]`)
	functions = strings.Fields("sum min max avg count topk bottomk rate irate increase delta max_over_time histogram_quantile clamp_max clamp_min absent")
	operators = strings.Fields("and or unless bool offset inf nan")
	listed    = strings.Fields("by without on ignoring group_left group_right")
)

// parse reads an expression of PromQL.
func parse(text string) (expression, error) {
	p := &parser{}
	for _, found := range variable.FindAllStringSubmatch(text, -1) {
		p.found.variables = append(p.found.variables, found[1]+found[2])
	}
	for rest := text; rest != ""; {
		next := token.FindString(rest)
		if next == "" {
			return p.found, fmt.Errorf("cannot read %q", rest)
		}
		rest = rest[len(next):]
		if trimmed := strings.TrimSpace(next); trimmed != "" && trimmed[0] != '#' {
			p.tokens = append(p.tokens, next)
		}
	}
	depth := 0
	for len(p.tokens) > 0 {
		depth += strings.Count("(", p.peek()) - strings.Count(")", p.peek())
		if err := p.next(); err != nil {
			return p.found, err
		}
		if depth < 0 {
			break
		}
	}
	if depth != 0 {
		return p.found, fmt.Errorf("the parentheses of %q do not match", text)
	}
	return p.found, nil
}

type parser struct {
	tokens []string
	found  expression
}

func (p *parser) peek() string {
	if len(p.tokens) == 0 {
		return ""
	}
	return p.tokens[0]
}

func (p *parser) take() string {
	taken := p.peek()
	p.tokens = p.tokens[min(1, len(p.tokens)):]
	return taken
}

func (p *parser) expect(want string) error {
	if got := p.take(); got != want {
		return fmt.Errorf("got %q, want %q", got, want)
	}
	return nil
}

func (p *parser) next() error {
	name := p.take()
	switch {
	case name == "{":
		return fmt.Errorf("a selector names no metric")
	case name == "[":
		for p.peek() != "]" && p.peek() != "" {
			p.take()
		}
		return p.expect("]")
	case !isName.MatchString(name), slices.Contains(operators, name):
		return nil
	case slices.Contains(listed, name):
		return p.list(strings.HasPrefix(name, "group"))
	case p.peek() == "(", p.peek() == "by", p.peek() == "without":
		if !slices.Contains(functions, name) {
			return fmt.Errorf("no function is called %q", name)
		}
		return nil
	case p.peek() == "{":
		p.take()
		return p.selector(name)
	default:
		p.found.selectors = append(p.found.selectors, selector{metric: name})
		return nil
	}
}

// list reads the labels after by, without and the like.
func (p *parser) list(optional bool) error {
	if optional && p.peek() != "(" {
		return nil
	}
	if err := p.expect("("); err != nil {
		return err
	}
	for p.peek() != ")" {
		if !isName.MatchString(p.peek()) {
			return fmt.Errorf("%q is no label", p.peek())
		}
		p.found.labels = append(p.found.labels, p.take())
		if p.peek() == "," {
			p.take()
		}
	}
	return p.expect(")")
}

// selector reads the part between braces.
func (p *parser) selector(metric string) error {
	s := selector{metric: metric}
	for p.peek() != "}" {
		m := matcher{label: p.take(), operator: p.take()}
		value := p.take()
		if !isName.MatchString(m.label) || !slices.Contains([]string{"=", "!=", "=~", "!~"}, m.operator) || strings.Trim(value, `"'`) == value {
			return fmt.Errorf("%s%s%s is no matcher", m.label, m.operator, value)
		}
		m.value = strings.Trim(value, `"'`)
		s.matchers = append(s.matchers, m)
		if p.peek() == "," {
			p.take()
		}
	}
	p.found.selectors = append(p.found.selectors, s)
	return p.expect("}")
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
		found, err := parse(text)
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
		if got := strings.Join(said, " "); err != nil || got != want {
			t.Errorf("%s: got %s (%v), want %s", text, got, err, want)
		}
	}
	for _, wrong := range []string{`rat(a[5m])`, `sum(a`, `a)`, `{x="y"}`, `a{x}`, `a{x="y"`, `a{x=y}`, `sum by ("x") (a)`, `a[5m`, `a ; b`, `sum by x (a)`} {
		if found, err := parse(wrong); err == nil {
			t.Errorf("%s: got %+v, want an error", wrong, found)
		}
	}
}
