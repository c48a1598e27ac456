/* What the archive of jansson sees as stdin when Ochre is linked as a shared object; CMakeLists.txt says why. Only
 * json_loadf compares with it, and Ochre reads documents from memory. */
extern void *och_jansson_stdin;
void *och_jansson_stdin;
