/* A file that is not there comes back as a status with a message that names it. */
#include <ochre/ochre.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    const char *path = "/nowhere/no-such-model.gguf";
    ochre_error e = {0};
    ochre_model *model = (ochre_model *)&e; /* not NULL, to see that it is cleared */
    ochre_status st = ochre_model_open(path, NULL, &model, &e);
    printf("%s: %s\n", ochre_status_name(st), e.message);
    if (st != OCHRE_NOTFOUND || e.status != st || model != NULL || !strstr(e.message, path)) return 1;
    /* The record is optional. */
    return ochre_model_open(path, NULL, &model, NULL) == OCHRE_NOTFOUND ? 0 : 1;
}
