package main

import (
	"fmt"

	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

// costRow is a store under a load.
type costRow struct {
	label, comparison string
	first, replay     string
	bare              string // its costs are not the store's; empty: none
	record, tombstone string // figures: bytes that the store holds
	disk, wal         string // figures; empty: none
}

func costRows() []costRow {
	rows := []costRow{
		{
			label: "memstore, a whole request in process", comparison: processComparison, first: "net/http: first", replay: "net/http: replay",
			bare: bareArm, record: memoryBytes, tombstone: tombstoneFigure(inMemory),
		},
		redisCosts("redisstore, 16 at once", redisPooled),
		redisCosts("redisstore, 256 at once, auto-pipelining", redisPipelined),
	}
	for _, callers := range postgresCallers {
		rows = append(rows, costRow{
			label: fmt.Sprintf("pgstore, %d at once", callers), comparison: postgresComparison(callers), first: firstArmName, replay: replayArmName,
			disk: diskFigure(callers), wal: walFigure(callers), tombstone: tombstoneFigure("pgstore"),
		})
	}
	return rows
}

func redisCosts(label, comparison string) costRow {
	return costRow{
		label: label, comparison: comparison, first: firstArmName, replay: replayArmName,
		record: recordFigure("redisstore"), tombstone: tombstoneFigure("redisstore"),
	}
}

// costs returns the price of a million requests at each store: a microsecond for each is a
// second, and a byte for each is a megabyte.
func costs(found results) report.Section {
	table := report.Table{Head: []string{
		"a million requests", "first: CPU of the process", "CPU of the server", "replay: CPU of the process", "CPU of the server",
		"records in memory", "on disk", "WAL", "tombstones",
	}}
	figure := func(name string) string {
		bytes, measured := found.figures[name]
		if !measured {
			return ""
		}
		return report.Number(bytes) + " MB"
	}
	seconds := func(nanoseconds float64) string {
		if nanoseconds == 0 {
			return ""
		}
		return report.Number(nanoseconds/1e3) + " s"
	}
	for _, row := range costRows() {
		c := found.find(row.comparison, row.first, row.replay)
		if c == nil {
			continue
		}
		var bare harness.Cost
		if row.bare != "" {
			bare = c.Median(row.bare)
		}
		first, replay := c.Median(row.first), c.Median(row.replay)
		table.Rows = append(table.Rows, []string{
			row.label, seconds(first.CPU - bare.CPU), seconds(first.Server), seconds(replay.CPU - bare.CPU), seconds(replay.Server),
			figure(row.record), figure(row.disk), figure(row.wal), figure(row.tombstone),
		})
	}
	return report.Section{
		Title: "Costs of a million requests",
		Text: []string{
			fmt.Sprintf("From the tables above; docs/scale.md has the conclusions. Responses of %d bytes. CPU is processor time. At redisstore and "+
				"pgstore it is that of the store's calls alone: add the first row's for the engine. Memory and disk are for as long as the records are "+
				"kept, *tombstones* instead of them after that, for RememberHours. A tombstone of pgstore is the row's size.", size),
		},
		Tables: []report.Table{table},
	}
}
