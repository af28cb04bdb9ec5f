package main

import (
	"strconv"
	"strings"

	"github.com/oncekey/oncekey/adapters/inspector/oncekey/internal/verify"
)

// verified is the JSON of verify.
type verified struct {
	Probes    []verify.Row       `json:"probes"`
	Protocols []*verify.Findings `json:"protocols"`
	Stopped   string             `json:"stopped,omitempty"`
}

// verified writes the probes, and then the rules of each protocol.
func (p *printer) verified(seen *verify.Seen, found []*verify.Findings) error {
	if !p.isTable() {
		var rules []verify.Finding
		for _, of := range found {
			rules = append(rules, of.Rules...)
		}
		return documents(p, verified{seen.Rows(), found, seen.Stopped}, rules)
	}
	rows := [][]string{{"PROBE", "EFFECTS", "RESPONSES"}}
	for _, one := range seen.Rows() {
		effects := "-"
		if one.Effects != nil {
			effects = strconv.FormatInt(*one.Effects, 10)
		}
		rows = append(rows, []string{string(one.Probe), effects, one.Responses})
	}
	if err := p.table(rows); err != nil {
		return err
	}
	for _, one := range found {
		if err := p.rulesOf(one); err != nil {
			return err
		}
	}
	p.line("")
	for _, one := range found {
		p.conclusion(one)
	}
	return nil
}

// rulesOf writes the rules of a protocol.
func (p *printer) rulesOf(of *verify.Findings) error {
	p.line("")
	p.line("%s", of.Source)
	rows := [][]string{{"RESULT", "LEVEL", "RULE", "", "MEANS", "EVIDENCE"}}
	for _, one := range of.Rules {
		if one.Section != "" { // an empty column is not printed
			rows[0][3] = "SECTION"
		}
		result := string(one.Result)
		if one.Result == verify.Broken {
			result = strings.ToUpper(result)
		}
		rows = append(rows, []string{result, string(one.Level), one.Rule, one.Section, one.Text, one.Evidence})
	}
	return p.table(rows)
}

// conclusion writes the line about a protocol.
func (p *printer) conclusion(of *verify.Findings) {
	word, more := "holds", ""
	if of.BrokenMust > 0 {
		word, more = "BROKEN", " ("+strconv.Itoa(of.BrokenMust)+" MUST)"
	}
	p.line("%-7s %-6s  %d kept, %d broken%s, %d unknown", of.Protocol, word, of.Kept, of.Broken, more, of.Unknown)
}
