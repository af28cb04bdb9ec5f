package tablefile

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/oncekey/oncekey/policy"
)

// entry is one key of a mapping, its value and its line.
type entry struct {
	key   string
	value ast.Node
	line  int
}

// entries returns the entries of a mapping. A missing node or null is an empty
// mapping.
func (r *reader) entries(node ast.Node, of string) []entry {
	switch node := node.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
		return nil
	case *ast.MappingNode:
		return r.pairs(node, of)
	case *ast.MappingValueNode: // a mapping of one
		return r.pairs(node, of)
	default:
		r.fault(lineOf(node), fmt.Errorf("%s: %s is not a mapping: write \"name: value\" pairs", of, asWritten(node)))
		return nil
	}
}

func (r *reader) pairs(node ast.MapNode, of string) []entry {
	var all []entry
	seen := make(map[string]int)
	for pairs := node.MapRange(); pairs.Next(); {
		key, line := pairs.Key(), lineOf(pairs.Key())
		name, isText := key.(*ast.StringNode)
		if !isText {
			r.fault(line, fmt.Errorf("%s: %s is not a name: put it in quotes", of, asWritten(key)))
			continue
		}
		if before := seen[name.Value]; before > 0 {
			r.fault(line, fmt.Errorf("%s: %s is already in line %d", of, name.Value, before))
			continue
		}
		seen[name.Value] = line
		all = append(all, entry{name.Value, pairs.Value(), line})
	}
	return all
}

// decimal matches integers with the same value in every version of YAML: 010 is 8 in
// YAML 1.1 and 10 in YAML 1.2.
var decimal = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// valueOf converts a node to a value for policy.Named. A node of an unexpected type
// is returned as written, so that Named refuses it.
func valueOf(option string, node ast.Node) (any, error) {
	if isStatuses(option) {
		switch node.(type) {
		case *ast.IntegerNode, *ast.StringNode:
			return []string{textOf(node)}, nil // a list of one
		}
	}
	switch node := node.(type) {
	case nil, *ast.NullNode:
		return "", nil
	case *ast.BoolNode:
		return node.Value, nil
	case *ast.IntegerNode:
		return wholeNumber(option, node)
	case *ast.StringNode:
		return node.Value, nil
	case *ast.LiteralNode:
		return node.Value.Value, nil
	case *ast.SequenceNode:
		return namesOf(option, node)
	}
	return asWritten(node), nil
}

func wholeNumber(option string, node *ast.IntegerNode) (any, error) {
	text := asWritten(node)
	if !decimal.MatchString(string(text)) {
		return nil, &policy.FieldError{Field: option, Value: text, Want: "a whole number in decimal, without a sign, a leading zero or an underscore"}
	}
	if value, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return value, nil
	}
	return text, nil
}

// isStatuses reports whether the option takes statuses. They may be numbers, also one alone:
// Release: [400, 422], Keep: 422.
func isStatuses(option string) bool {
	return option == "Release" || option == "Keep" || option == "Uncertain"
}

// status is a number that every list may hold without quotes.
var status = regexp.MustCompile(`^[1-5][0-9][0-9]$`)

func namesOf(option string, list *ast.SequenceNode) ([]string, error) {
	names := make([]string, 0, len(list.Values))
	for _, node := range list.Values {
		_, isText := node.(*ast.StringNode)
		if _, isNumber := node.(*ast.IntegerNode); !isText && (!isNumber || !isStatuses(option) && !status.MatchString(string(asWritten(node)))) {
			return nil, &policy.FieldError{Field: option, Value: asWritten(node), Want: "a list of names: put it in quotes"}
		}
		names = append(names, textOf(node))
	}
	return names, nil
}

// textOf returns a text without its quotes, and a number as it is written.
func textOf(node ast.Node) string {
	if text, isText := node.(*ast.StringNode); isText {
		return text.Value
	}
	return string(asWritten(node))
}

// written is the text of a node in the file.
type written string

// asWritten returns the first line of the node's text: a message has one line.
func asWritten(node ast.Node) written {
	first, _, _ := strings.Cut(strings.TrimSpace(node.String()), "\n")
	if first == "" {
		return "an empty item"
	}
	return written(first)
}

func lineOf(node ast.Node) int {
	if token := node.GetToken(); token != nil {
		return token.Position.Line
	}
	return 1
}

// startOf returns the line of a document's "---".
func startOf(document *ast.DocumentNode) int {
	if document.Start != nil {
		return document.Start.Position.Line
	}
	return 1
}
