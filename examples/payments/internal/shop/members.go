package shop

import (
	"fmt"
	"net/http"
	"net/mail"
	"sync"

	"github.com/oncekey/oncekey/failure"
)

// member is a client's request without the id, and the response with the id.
type member struct {
	ID    string `json:"member_id"`
	Email string `json:"email"`
}

// members belong to this process, so a number is enough as their id.
type members struct {
	mu    sync.Mutex
	email map[string]string // by id
	taken map[string]bool   // by email
}

func newMembers() members {
	return members{email: make(map[string]string), taken: make(map[string]bool)}
}

// CreateMember responds to POST /members.
func (s *Shop) CreateMember(w http.ResponseWriter, r *http.Request) {
	s.CountAttempt()
	wanted, err := readMember(w, r)
	if err != nil {
		WriteError(w, err)
		return
	}
	s.members.mu.Lock()
	defer s.members.mu.Unlock()
	wanted.ID = fmt.Sprintf("mem_%d", len(s.members.email)+1)
	if s.setEmail(w, r, wanted) {
		w.Header().Set("Location", "/members/"+wanted.ID)
		WriteJSON(w, http.StatusCreated, wanted)
	}
}

// ChangeMember responds to PATCH /members/{id}.
func (s *Shop) ChangeMember(w http.ResponseWriter, r *http.Request) {
	s.CountAttempt()
	wanted, err := readMember(w, r)
	if err != nil {
		WriteError(w, err)
		return
	}
	s.members.mu.Lock()
	defer s.members.mu.Unlock()
	wanted.ID = r.PathValue("id")
	email, known := s.members.email[wanted.ID]
	if !known {
		WriteError(w, StatusError{http.StatusNotFound, "member is unknown"})
		return
	}
	if email == wanted.Email || s.setEmail(w, r, wanted) {
		WriteJSON(w, http.StatusOK, wanted)
	}
}

// setEmail gives the member an email. When it returns false, it has written the response.
// The caller holds the lock.
func (s *Shop) setEmail(w http.ResponseWriter, r *http.Request, m member) bool {
	if s.members.taken[m.Email] {
		// No side effect has happened. Releasing the key lets the client correct the email
		// and send it under the same key.
		failure.MarkRetryable(r.Context(), "email is taken")
		WriteError(w, StatusError{http.StatusConflict, "email is taken: choose another"})
		return false
	}
	in, added, err := s.Ledger.Add(r.Context(), memberships, Entry{ID: m.ID, Email: m.Email})
	if err != nil {
		WriteError(w, err)
		return false
	}
	failure.MarkExecuted(r.Context()) // from here on the response is kept
	if !added {                       // a process that died had added the member, and its members are lost
		WriteError(w, StatusError{http.StatusConflict, "this happened before, as member " + in.ID + ", and its response was lost"})
		return false
	}
	delete(s.members.taken, s.members.email[m.ID])
	s.members.email[m.ID], s.members.taken[m.Email] = m.Email, true
	return true
}

func readMember(w http.ResponseWriter, r *http.Request) (member, error) {
	var m member
	if err := ReadJSON(w, r, &m); err != nil {
		return m, err
	}
	address, err := mail.ParseAddress(m.Email)
	if err != nil || address.Address != m.Email {
		return m, BadRequest("email must be an address, such as ada@example.com")
	}
	return m, nil
}

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
