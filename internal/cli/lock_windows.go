package cli

// lockBeside is what the name of a lock adds to that of the file that is written. Windows neither writes
// to a locked file by another handle nor renames an open one.
const lockBeside = ".lock"
