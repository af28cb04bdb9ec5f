package main

// notice is one thing that happened in the shop, as sent to the page. Most notices are
// events of an engine, with the event's result in What. The other notices come from the
// balancer, the bank and the pods' links to the store:
//
//	opened       the shop is open
//	arrived      a request reached a pod
//	responded    the response went to the browser
//	no_response  the response was dropped, or the pod was killed
//	lease        the store has given or renewed a lease, which runs until Until
//	charged      the bank charged a card
//	recognised   the bank knew the charge already, by its derived key
//	killed       a pod was killed
//	started      another pod took its place
//	not_started  the other pod could not start
type notice struct {
	What    string  `json:"what"`
	At      int64   `json:"at"`                // milliseconds since the shop opened
	Until   int64   `json:"until,omitempty"`   // likewise
	Request int     `json:"request,omitempty"` // the page's own number
	Pod     string  `json:"pod,omitempty"`
	Attempt uint64  `json:"attempt,omitempty"`
	Status  int     `json:"status,omitempty"`
	Charge  *charge `json:"charge,omitempty"`
	Shop    string  `json:"shop,omitempty"`
	Lease   int64   `json:"lease,omitempty"` // milliseconds
	Error   string  `json:"error,omitempty"`
}
