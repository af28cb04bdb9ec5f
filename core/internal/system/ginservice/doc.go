// Package ginservice contains only tests. They run a gin service in the style of sqlc's
// tutorials over real databases: its handlers pass their *gin.Context to a repository, which
// writes in the run's transaction, or else in a transaction of its own.
package ginservice
