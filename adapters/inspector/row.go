package inspector

import (
	"cmp"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// Row is one record of a list.
type Row struct {
	Record string `json:"record"`
	State  string `json:"state"`
	Route  string `json:"route,omitempty"`
	// Endpoint is the route with the methods of this engine's routes, where the pattern has none.
	Endpoint string `json:"endpoint,omitempty"`
	Holder   string `json:"holder,omitempty"`
	Attempt  uint64 `json:"attempt"`
	Status   int    `json:"status,omitempty"`
	// ByHand says that an operator has settled the key: there is no status of a response.
	ByHand  bool      `json:"byHand,omitempty"`
	Created time.Time `json:"created,omitzero"`
	// Finished is zero for a record in progress.
	Finished time.Time `json:"finished,omitzero"`
	Expires  time.Time `json:"expires,omitzero"`
	// LeaseLeft in milliseconds: below zero for an abandoned record, zero for a finished one.
	LeaseLeft int64 `json:"leaseLeftMs,omitempty"`
	// Requests is the number of requests that this process remembers.
	Requests int `json:"requests"`
	// Slow says that the run takes longer than 99 % of its route's.
	Slow bool `json:"slow,omitempty"`
	// OnAbandoned is the policy's, for an abandoned record of a known route.
	OnAbandoned string `json:"onAbandoned,omitempty"`
}

func rowOf(key string, record *storage.Record) Row {
	one := Row{
		Record: key, State: stateOf(record), Route: record.Origin.Route, Holder: record.Origin.Holder, Attempt: record.Attempt,
		Status: record.Status, Created: record.Created, Finished: record.Finished, Expires: record.Expires,
	}
	if isByHand(record) {
		one.Status, one.ByHand = 0, true
	}
	if record.State == storage.InProgress {
		one.LeaseLeft = record.LeaseLeft.Milliseconds()
	}
	return one
}

func compareUrgency(a, b Row) int {
	urgency := func(r Row) int {
		switch r.State {
		case abandonedState:
			return 0
		case storage.InProgress.String():
			return 1
		default:
			return 2
		}
	}
	if order := cmp.Compare(urgency(a), urgency(b)); order != 0 {
		return order
	}
	if urgency(a) == 2 {
		return b.Finished.Compare(a.Finished)
	}
	return a.Created.Compare(b.Created)
}
