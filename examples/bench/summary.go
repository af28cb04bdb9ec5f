package main

import (
	"fmt"
	"strings"

	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

const guardQuestion = "Time from request to response, the median (p50), in process, without HTTP. *bare* is the handler alone: a guard adds " +
	"the rest. *By hand* is a guard that a team would write for itself, with a claim, a token and SHA-256 of the body. *Least* is the handler with one write of its " +
	"response, or one read. The ratios are requests a second: above 1, oncekey is faster. [A guard on each store](#a-guard-on-each-store) has the details, " +
	"[SQL databases](#sql-databases) MySQL, MariaDB and SQLite beside their own INSERT and SELECT."

// guardCosts is the beginning of the document: the cost of a guard, with a row for each kind of
// request at each store. It is empty if no guard was measured in full.
func guardCosts(found results) string {
	table := report.Table{Head: []string{"records in, callers, request", "bare", "oncekey", "by hand", "least", "oncekey : by hand", "oncekey : least"}}
	for _, name := range []string{guardedMemory, guardedRedis, guardedPostgres} {
		for _, callers := range guardedCallers {
			for _, ours := range []string{oursFirst, oursReplay} {
				theirs, least := likeByHand(ours), leastOf(ours)
				c := found.find(fmt.Sprintf(name, callers), bareServiceName, ours, theirs, least)
				if c == nil {
					continue
				}
				_, store, _ := strings.Cut(name, "records in ")
				row := []string{fmt.Sprintf(store, callers) + ", " + strings.TrimPrefix(ours, "oncekey: ")}
				for _, arm := range []string{bareServiceName, ours, theirs, least} {
					row = append(row, report.Duration(c.Median(arm).P50))
				}
				table.Rows = append(table.Rows, append(row, report.Interval(c.Ratio(theirs, ours)), report.Interval(c.Ratio(least, ours))))
			}
		}
	}
	if len(table.Rows) == 0 {
		return ""
	}
	return report.Section{Title: "What a guard costs", Text: []string{guardQuestion}, Tables: []report.Table{table}}.String()
}
