package main

import (
	"net/http"

	"github.com/oncekey/oncekey/failure"
)

type note struct {
	Text string `json:"text"`
}

// createNote may run twice: its policy prefers a second note to none while the store is
// down. If the ledger is in the store's own database, both are down together, and the
// request creates no note.
func (s *shop) createNote(w http.ResponseWriter, r *http.Request) {
	s.countAttempt()
	var n note
	if err := readJSON(w, r, &n); err != nil {
		writeError(w, err)
		return
	}
	if n.Text == "" {
		writeError(w, badRequest("text is missing"))
		return
	}
	if _, _, err := s.ledger.add(r.Context(), notes, entry{Text: n.Text}); err != nil {
		writeError(w, err)
		return
	}
	failure.MarkExecuted(r.Context())
	writeJSON(w, http.StatusCreated, n)
}
