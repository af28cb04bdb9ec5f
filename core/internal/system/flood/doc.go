// Package flood lets one client flood a service with new keys while another one pays, over each
// kind of server.
package flood
