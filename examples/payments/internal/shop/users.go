package shop

import (
	"context"
	"errors"
	"net/http"
	"strings"
)

type userKey struct{}

// UserFrom returns the authenticated user of the context.
func UserFrom(ctx context.Context) string {
	user, _ := ctx.Value(userKey{}).(string)
	return user
}

// UserOf is the engine's scope: a key belongs to the user who sent it.
func UserOf(r *http.Request) (string, error) {
	user := UserFrom(r.Context())
	if user == "" {
		return "", errors.New("no user is authenticated")
	}
	return user, nil
}

// Authenticate accepts any user name: Authorization: Bearer USER.
func Authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r, known := WithUser(r)
		if !known {
			RefuseStranger(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// WithUser adds the request's user to its context.
func WithUser(r *http.Request) (*http.Request, bool) {
	scheme, user, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	user = strings.TrimSpace(user)
	if !strings.EqualFold(scheme, "Bearer") || user == "" {
		return r, false
	}
	return r.WithContext(context.WithValue(r.Context(), userKey{}, user)), true
}

// RefuseStranger responds to a request without a user.
func RefuseStranger(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="payments"`)
	WriteError(w, StatusError{http.StatusUnauthorized, "Authorization: Bearer USER is required"})
}
