package verify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Finding is the result of a rule.
type Finding struct {
	Rule     string `json:"rule"` // such as acp.replay
	Level    Level  `json:"level"`
	Section  string `json:"section,omitempty"` // "": that of Findings.Source
	Text     string `json:"text"`
	Result   Result `json:"result"`
	Evidence string `json:"evidence"`
}

// Findings are the results of a protocol.
type Findings struct {
	Protocol string    `json:"protocol"`
	Source   string    `json:"source"`
	Rules    []Finding `json:"rules"`
	Kept     int       `json:"kept"`
	Broken   int       `json:"broken"`
	Unknown  int       `json:"unknown"`
	// BrokenMust counts the rules among Broken whose level is MUST.
	BrokenMust int `json:"brokenMust"`
}

// Judge returns the findings of the protocols with these names, in the order of Protocols.
func (s *Seen) Judge(names []string) (all []*Findings) {
	for _, one := range Protocols {
		if !slices.Contains(names, one.Name) {
			continue
		}
		found := &Findings{Protocol: one.Name, Source: one.Source}
		for _, rule := range rules[one.Name] {
			found.add(&rule, s.judge(&rule))
		}
		all = append(all, found)
	}
	return all
}

func (f *Findings) add(of *rule, v verdict) {
	f.Rules = append(f.Rules, Finding{f.Protocol + "." + of.id, of.level, of.section, of.text, v.result, v.evidence})
	switch v.result {
	case Kept:
		f.Kept++
	case Unknown:
		f.Unknown++
	case Broken:
		f.Broken++
		if of.level == Must {
			f.BrokenMust++
		}
	}
}

// judge joins the verdicts of a rule's probes: one that breaks it decides, and then one that keeps
// it.
func (s *Seen) judge(of *rule) verdict {
	if len(of.probes) == 0 {
		return unknown("not seen from outside")
	}
	var all []verdict
	for _, name := range of.probes {
		o := s.by[name]
		found := unknown("%s", o.Skipped)
		if o.Skipped == "" {
			found = of.judge(s, o)
		}
		if len(of.probes) > 1 {
			found.evidence = string(name) + ": " + found.evidence
		}
		all = append(all, found)
	}
	order := []Result{Broken, Kept, Unknown}
	return slices.MinFunc(all, func(a, b verdict) int {
		return cmp.Compare(slices.Index(order, a.result), slices.Index(order, b.result))
	})
}

// Row is a probe as a table shows it.
type Row struct {
	Probe     Probe  `json:"probe"`
	Requests  int    `json:"requests"`
	Responses string `json:"responses"`
	Effects   *int64 `json:"effects,omitempty"` // nil: not counted
}

// Rows returns the probes.
func (s *Seen) Rows() (all []Row) {
	for _, o := range s.Observations {
		row := Row{Probe: o.Probe, Requests: o.Requests, Responses: o.responses(s)}
		if o.Counted {
			row.Effects = &o.Effects
		}
		all = append(all, row)
	}
	return all
}

// responses returns the statuses of a probe. Those of requests that were sent at the same time have no
// order.
func (o *Observation) responses(s *Seen) string {
	if o.Skipped != "" {
		return "skipped: " + o.Skipped
	}
	texts := make([]string, len(o.Exchanges))
	for i, one := range o.Exchanges {
		texts[i] = one.summary(s)
	}
	if o.Probe != Duplicates && o.Probe != OtherDuring {
		return strings.Join(texts, ", ")
	}
	slices.Sort(texts)
	var parts []string
	for begin := 0; begin < len(texts); {
		end := begin + 1
		for end < len(texts) && texts[end] == texts[begin] {
			end++
		}
		parts = append(parts, fmt.Sprintf("%d x %s", end-begin, texts[begin]))
		begin = end
	}
	return strings.Join(parts, ", ")
}
