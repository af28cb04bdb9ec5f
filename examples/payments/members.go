package main

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

func (s *shop) createMember(w http.ResponseWriter, r *http.Request) {
	s.countAttempt()
	wanted, err := readMember(w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	s.members.mu.Lock()
	defer s.members.mu.Unlock()
	wanted.ID = fmt.Sprintf("mem_%d", len(s.members.email)+1)
	if s.setEmail(w, r, wanted) {
		w.Header().Set("Location", "/members/"+wanted.ID)
		writeJSON(w, http.StatusCreated, wanted)
	}
}

func (s *shop) changeMember(w http.ResponseWriter, r *http.Request) {
	s.countAttempt()
	wanted, err := readMember(w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	s.members.mu.Lock()
	defer s.members.mu.Unlock()
	wanted.ID = r.PathValue("id")
	email, known := s.members.email[wanted.ID]
	if !known {
		writeError(w, refusal{http.StatusNotFound, "member is unknown"})
		return
	}
	if email == wanted.Email || s.setEmail(w, r, wanted) {
		writeJSON(w, http.StatusOK, wanted)
	}
}

// setEmail gives the member an email. When it returns false, it has written the response.
// The caller holds the lock.
func (s *shop) setEmail(w http.ResponseWriter, r *http.Request, m member) bool {
	if s.members.taken[m.Email] {
		// No side effect has happened. Releasing the key lets the client correct the email
		// and send it under the same key.
		failure.MarkRetryable(r.Context(), "email is taken")
		writeError(w, refusal{http.StatusConflict, "email is taken: choose another"})
		return false
	}
	in, added, err := s.ledger.add(r.Context(), memberships, entry{ID: m.ID, Email: m.Email})
	if err != nil {
		writeError(w, err)
		return false
	}
	failure.MarkExecuted(r.Context()) // from here on the response is kept
	if !added {                       // a process that died had added the member, and its members are lost
		writeError(w, refusal{http.StatusConflict, "this happened before, as member " + in.ID + ", and its response was lost"})
		return false
	}
	delete(s.members.taken, s.members.email[m.ID])
	s.members.email[m.ID], s.members.taken[m.Email] = m.Email, true
	return true
}

func readMember(w http.ResponseWriter, r *http.Request) (member, error) {
	var m member
	if err := readJSON(w, r, &m); err != nil {
		return m, err
	}
	address, err := mail.ParseAddress(m.Email)
	if err != nil || address.Address != m.Email {
		return m, badRequest("email must be an address, such as ada@example.com")
	}
	return m, nil
}
