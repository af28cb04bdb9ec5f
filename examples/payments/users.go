package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
)

type userKey struct{}

// userFrom returns the authenticated user of the context.
func userFrom(ctx context.Context) string {
	user, _ := ctx.Value(userKey{}).(string)
	return user
}

// userOf is the engine's scope: a key belongs to the user who sent it.
func userOf(r *http.Request) (string, error) {
	user := userFrom(r.Context())
	if user == "" {
		return "", errors.New("no user is authenticated")
	}
	return user, nil
}

// authenticate accepts any user name: Authorization: Bearer USER.
func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r, known := withUser(r)
		if !known {
			refuseStranger(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// withUser adds the request's user to its context.
func withUser(r *http.Request) (*http.Request, bool) {
	scheme, user, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	user = strings.TrimSpace(user)
	if !strings.EqualFold(scheme, "Bearer") || user == "" {
		return r, false
	}
	return r.WithContext(context.WithValue(r.Context(), userKey{}, user)), true
}

func refuseStranger(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="payments"`)
	writeError(w, refusal{http.StatusUnauthorized, "Authorization: Bearer USER is required"})
}
