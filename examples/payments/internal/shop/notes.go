package shop

import (
	"net/http"

	"github.com/oncekey/oncekey/failure"
)

type note struct {
	Text string `json:"text"`
}

// CreateNote may run twice: its policy prefers a second note to none while the store is
// down. If the ledger is in the store's own database, both are down together, and the
// request creates no note.
func (s *Shop) CreateNote(w http.ResponseWriter, r *http.Request) {
	s.CountAttempt()
	var n note
	if err := ReadJSON(w, r, &n); err != nil {
		WriteError(w, err)
		return
	}
	if n.Text == "" {
		WriteError(w, BadRequest("text is missing"))
		return
	}
	if _, _, err := s.Ledger.Add(r.Context(), notes, Entry{Text: n.Text}); err != nil {
		WriteError(w, err)
		return
	}
	failure.MarkExecuted(r.Context())
	WriteJSON(w, http.StatusCreated, n)
}
