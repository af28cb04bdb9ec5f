package inspector

import (
	"fmt"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/storage"
)

// lane is the picture of a record's life: phases of equal width, because a run takes
// milliseconds and a response is kept for days.
type lane struct {
	Phases []phase
	Marks  []mark
	Ends   []laneEnd
	Label  string // for people who do not see the picture
}

type phase struct {
	X, Width    int
	Class, Text string
	from, to    time.Time
}

// mark is a request that did not run.
type mark struct {
	X     int
	Class string
}

type laneEnd struct {
	X            int
	Anchor, Text string
}

// laneWidth is the width of the picture in its own units.
const laneWidth = 700

// laneOf returns the picture, or nil for a record without its times.
func laneOf(record *storage.Record, events []Happened) *lane {
	if record.Created.IsZero() {
		return nil
	}
	now := time.Now()
	attempt := fmt.Sprintf("attempt %d", record.Attempt)
	var phases []phase
	switch {
	case record.Abandoned() && record.LeaseLeft < 0:
		ended := now.Add(record.LeaseLeft)
		phases = []phase{
			{Class: "flight", Text: attempt + " and its lease", from: record.Created, to: ended},
			{Class: "bad", Text: "abandoned", from: ended, to: now},
		}
	case record.State == storage.InProgress:
		phases = []phase{
			{Class: "flight", Text: attempt + " runs", from: record.Created, to: now},
			{Class: "lease", Text: "lease", from: now, to: now.Add(record.LeaseLeft)},
		}
	case record.Finished.IsZero(), record.Expires.IsZero():
		return nil
	case isByHand(record):
		phases = []phase{
			{Class: "bad", Text: attempt + ", abandoned", from: record.Created, to: record.Finished},
			{Class: "warn", Text: "settled by hand", from: record.Finished, to: record.Expires},
		}
	default:
		phases = []phase{
			{Class: "flight", Text: attempt, from: record.Created, to: record.Finished},
			{Class: toneOf(stateOf(record)), Text: record.State.String(), from: record.Finished, to: record.Expires},
		}
	}
	return drawLane(phases, events)
}

func drawLane(phases []phase, events []Happened) *lane {
	l := &lane{Phases: phases}
	var spoken []string
	width := laneWidth / len(phases)
	for i := range l.Phases {
		p := &l.Phases[i]
		p.X, p.Width = i*width+1, width-2
		spoken = append(spoken, p.Text+" for "+inWords(p.to.Sub(p.from)))
		p.Text += ", " + inWords(p.to.Sub(p.from))
	}
	for _, one := range events {
		if isRequest(one.Result) && one.Result != event.Execute {
			if at := l.place(one.At); at >= 0 {
				l.Marks = append(l.Marks, mark{at, toneOfResult(one.Result)})
			}
		}
	}
	for i, p := range l.Phases {
		anchor := "middle"
		if i == 0 {
			anchor = "start"
		}
		l.Ends = append(l.Ends, laneEnd{p.X, anchor, clock(p.from)})
	}
	last := l.Phases[len(l.Phases)-1]
	l.Ends = append(l.Ends, laneEnd{laneWidth - 1, "end", clock(last.to)})
	l.Label = strings.Join(spoken, ", then ") + fmt.Sprintf(". Requests meanwhile: %d.", len(l.Marks))
	return l
}

// place returns the x of a time, or -1 for one outside of the picture.
func (l *lane) place(at time.Time) int {
	for _, p := range l.Phases {
		if !at.Before(p.from) && at.Before(p.to) {
			return p.X + int(float64(p.Width)*float64(at.Sub(p.from))/float64(p.to.Sub(p.from)))
		}
	}
	return -1
}

// TextX is the x of the phase's text.
func (p phase) TextX() int { return p.X + 8 }
